"""The pages that a store serves over HTTP to those who watch it: a live page, health, metrics.

Everything is made of reports of the store when it is asked for. Nothing is changed here.
"""
