"""Candidates -> Plan: targets, order, budgets, objective. Nothing but arithmetic on one Snapshot."""
