"""What computes with networks for a certificate: training, priors, distributions. Methods call it, and need torch then.

Nothing here knows what a certificate claims.
"""
