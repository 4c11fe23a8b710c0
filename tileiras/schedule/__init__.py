"""Schedules of loops: when, in the steady state, each op of a loop's body runs, and how deep its rings of loads are.

    resources   what an op of nv_tileas takes of an SM's units, and how long until its result is there
    depth       how many stages a ring of loads has
    graph       which op of a loop's body waits for which, with latency and distance in iterations
    table       the reservation table: units by cycles modulo the interval
    serial      the schedule that is the program's order
    modulo      iterative modulo scheduling
    refine      schedules again until rings fit shared memory and values fit registers
    constraints what attributes on ops ask of their schedule
    options     what may be asked of schedules
    names       the attributes that a schedule is written as
    chart       a schedule as text, and as a trace

Nothing here changes IR but by attributes (transforms/generate_schedule.py writes them).
"""
