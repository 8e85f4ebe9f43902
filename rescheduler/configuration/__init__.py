"""The configuration of the controller. Pure: texts are handed in.

``document`` reads a text, with one module for each section (``..._section``); ``live`` says what a running process takes
of a newer one, ``start_only`` what it does not take.
"""
