package sweep

import "github.com/mongopatterns/mongopatterns"

type outcome = mongopatterns.Outcome

const (
	done    = mongopatterns.Done
	notDone = mongopatterns.NotDone
	unknown = mongopatterns.Unknown
)

var outcomeOf = mongopatterns.OutcomeOf
