package main

func writeHTML(name string, r *report) error { return nil }
