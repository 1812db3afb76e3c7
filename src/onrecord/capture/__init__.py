"""Recording of unchanged programs: the program as one run, and the interceptors that turn its actions into effects."""
