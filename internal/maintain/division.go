package maintain

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// InHalves does one batch and, if the server refuses it, its halves, as Run describes.
func InHalves(ctx context.Context, collection string, batch []bson.Raw, strict bool, total *mongopatterns.Result, do func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error) error {
	d := division{
		collection: collection,
		strict:     strict,
		joined:     txn.Running(ctx),
		total:      total,
		progress:   func() {},
		do:         do,
	}
	return d.run(ctx, batch)
}

// TooLarge is the error of a step whose batch is too large for one transaction, and has written nothing. Run does the
// batch in halves, also with Work.Strict, and refuses a document that is too large alone.
func TooLarge(err error) error { return fault.Refuse(&large{err}) }

type large struct{ error }

func (l *large) Unwrap() error { return l.error }

// A division is an InHalves or a Run under way.
type division struct {
	collection string
	strict     bool
	joined     bool // asked before: after a commit without an answer the driver still takes the transaction for running
	total      *mongopatterns.Result
	progress   func()
	do         func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error
}

// run does a batch. Documents that were done before an error stay done. The next attempt finds them without a problem, or
// counts them as Skipped, which run takes back.
func (d *division) run(ctx context.Context, batch []bson.Raw) error {
	skipped, doneBefore := d.total.Skipped, int64(0)
	defer func() { d.total.Skipped -= min(doneBefore, d.total.Skipped-skipped) }()
	return patiently(ctx, batch, d.total, d.progress, func(batch []bson.Raw) error {
		done, err := d.attempt(ctx, batch)
		doneBefore += done
		return err
	})
}

// attempt does a batch once, or its halves if the server refuses it. It returns how many documents will be met again,
// because they were done before an error.
func (d *division) attempt(ctx context.Context, batch []bson.Raw) (done int64, err error) {
	var result mongopatterns.Result
	err = d.do(ctx, batch, &result)
	if err == nil {
		result.Examined += int64(len(batch))
		Add(d.total, result)
		if d.strict { // the step itself may have refused documents, and written the others
			return 0, First(&result)
		}
		return 0, nil
	}
	conflict := errors.As(err, new(*busy))
	if !conflict && d.ends(err, len(batch)) {
		if result.Unknown == 0 && fault.MayBeDone(err) && !d.joined {
			result.Unknown = max(0, int64(len(batch))-result.Done)
		}
		Add(d.total, result) // what was done before the error
		return 0, err
	}
	d.total.Done += result.Done // not the rest of the result: the documents are done again
	if conflict {
		return result.Done, err
	}
	if len(batch) == 1 {
		d.total.Examined++
		Fail(d.total, d.collection, batch[0].Lookup("_id"), err)
		return result.Done, nil
	}
	for _, half := range [][]bson.Raw{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if err := d.run(ctx, half); err != nil {
			return result.Done, err
		}
	}
	return result.Done, nil
}

// ends reports whether the error of a batch ends the call, so that nothing smaller is tried.
func (d *division) ends(err error, size int) bool {
	divisible := size > 1 && errors.As(err, new(*large))
	return d.strict && !divisible || !fault.Refused(err) || d.joined
}
