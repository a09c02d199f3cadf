"""Other frameworks in processes of their own, timed in turns with ours."""
