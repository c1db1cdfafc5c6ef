package main

// result is one line of the JSON: one way of doing a thing against the baseline.
type result struct {
	Pattern      string  `json:"pattern"`
	Case         string  `json:"case"`
	Metric       string  `json:"metric"` // "read: time", "documents"
	Unit         string  `json:"unit"`
	Baseline     float64 `json:"baseline"`
	BaselineName string  `json:"baselineName"`
	Value        float64 `json:"patternValue"`
	Name         string  `json:"patternName"`
	// Ratio is Value / Baseline; 0 if Baseline is 0.
	Ratio float64 `json:"ratio"`
	// Goal is what Ratio should be at most; 0 is none.
	Goal   float64 `json:"goal,omitempty"`
	Runs   int     `json:"runs"`
	Engine string  `json:"engine"`
	Scale  string  `json:"scale"`
}
