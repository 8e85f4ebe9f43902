"""ReservationWindows and HeadRooms: which Reservations they have, make and give back. Pure."""
