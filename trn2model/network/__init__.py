"""Where groups sit on the machine, and what collectives over them cost."""
