package advise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// comment marks each command, so that an operator can find them and this package
// can leave its own reads out of the profile.
const comment = "mongopatterns advise"

// maxReply bounds the documents of one answer. All of it comes in the first batch.
const maxReply = 4000

var errBudget = errors.New("the budget is spent")

// server runs commands one after the other, within the budget.
type server struct {
	db      *mongo.Database
	maxTime time.Duration
	ends    time.Time
	left    int // commands
	sent    int
}

// run sends one command that only reads. The deadline of its context becomes its
// maxTimeMS: the driver sends what is left of it.
func (s *server) run(ctx context.Context, db *mongo.Database, command bson.D) (bson.Raw, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.spent() {
		return nil, errBudget
	}
	s.left--
	s.sent++
	bounded, cancel := context.WithTimeout(ctx, s.maxTime)
	defer cancel()
	command = append(command, bson.E{Key: "comment", Value: comment})
	if command[0].Key == "aggregate" {
		command = append(command, bson.E{Key: "allowDiskUse", Value: false}) // no temporary files on a live server
	}
	reply, err := db.RunCommand(bounded, command, options.RunCmd().SetReadPreference(readpref.SecondaryPreferred())).Raw()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return reply, err
}

// spent reports whether no command may follow.
func (s *server) spent() bool { return s.left == 0 || time.Now().After(s.ends) }

// aggregate returns the documents of a pipeline that answers with a few.
func (s *server) aggregate(ctx context.Context, collection any, pipeline bson.A) ([]bson.Raw, error) {
	return s.aggregateIn(ctx, s.db, collection, pipeline)
}

func (s *server) aggregateIn(ctx context.Context, db *mongo.Database, collection any, pipeline bson.A) ([]bson.Raw, error) {
	command := bson.D{
		{Key: "aggregate", Value: collection},
		{Key: "pipeline", Value: pipeline},
		{Key: "cursor", Value: bson.D{{Key: "batchSize", Value: maxReply + 1}}},
	}
	reply, err := s.run(ctx, db, command)
	for again := 1; again < sampleAttempts && unlucky(err); again++ {
		reply, err = s.run(ctx, db, command)
	}
	if err != nil {
		return nil, err
	}
	return s.batch(ctx, db, reply)
}

const (
	sampleAttempts = 5
	sampleFailed   = 28799 // the server's random cursor met the same documents too often
)

// unlucky reports whether err is that of a $sample which the server itself asks to repeat.
func unlucky(err error) bool {
	var refused mongo.CommandError
	return errors.As(err, &refused) && refused.Code == sampleFailed
}

// batch returns the first batch of a cursor and closes a cursor that has more.
func (s *server) batch(ctx context.Context, db *mongo.Database, reply bson.Raw) ([]bson.Raw, error) {
	var answer struct {
		Cursor struct {
			ID    int64      `bson:"id"`
			NS    string     `bson:"ns"`
			Batch []bson.Raw `bson:"firstBatch"`
		} `bson:"cursor"`
	}
	if err := bson.Unmarshal(reply, &answer); err != nil {
		return nil, err
	}
	if answer.Cursor.ID != 0 {
		_, collection, _ := cutNamespace(answer.Cursor.NS)
		_, err := s.run(ctx, db, bson.D{{Key: "killCursors", Value: collection}, {Key: "cursors", Value: bson.A{answer.Cursor.ID}}})
		return nil, errors.Join(errors.New("the answer is larger than one batch"), err)
	}
	return answer.Cursor.Batch, nil
}

// tookTooLong reports a command that the server, or the client, stopped.
func tookTooLong(err error) bool {
	var refused mongo.CommandError
	return mongo.IsTimeout(err) || errors.As(err, &refused) && refused.Code == 50
}

// reason says in words why a command failed.
func (s *server) reason(err error) string {
	var refused mongo.CommandError
	switch {
	case errors.Is(err, errBudget):
		return "the budget was spent before"
	case errors.As(err, &refused) && refused.Code == 13:
		return "the user may not read it"
	case tookTooLong(err):
		return fmt.Sprintf("counting takes longer than %v", s.maxTime)
	case errors.As(err, &refused):
		return "the server refused: " + refused.Message
	}
	return err.Error()
}

// remedy says what would tell what a failed command did not.
func (s *server) remedy(err error) string {
	var refused mongo.CommandError
	switch {
	case errors.Is(err, errBudget):
		return "a larger budget, or only this collection"
	case errors.As(err, &refused) && refused.Code == 13:
		return "the actions find, collStats and listIndexes on the collection, or the role read on this database"
	case errors.Is(err, errRanges), tookTooLong(err):
		return "-max-time (Options.MaxTime) of more, on a secondary"
	}
	return "the command by hand"
}
