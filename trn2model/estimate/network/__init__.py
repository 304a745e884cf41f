"""Groups on the fabric: placement, routing, collective algorithms, their cost and the load of every link."""
