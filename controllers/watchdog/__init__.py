"""Watchdog: reports in each SchedulingGate how many Pods its gate holds, for how long, and how many are overdue.

It only reports: releasing an overdue Pod is the gates controller's decision.  The one SchedulingGate that it creates is
Tollbar's own, at start (`declare`).  Hazard: down, the numbers are old.
"""
