package maintain

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// InHalves does one batch and, if it fails, its halves, as Run describes.
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

// A division is an InHalves or a Run under way. Of an error of do follows:
//
//	error                               several documents     one document
//	a conflict, from Once or Busy       halves                a pause, and another attempt
//	a refusal                           halves                Failed
//	a refusal, with strict              the end               the end
//	TooLarge                            halves                Failed; with strict the end
//	any other one, or one while joined  the end               the end
type division struct {
	collection string
	strict     bool
	joined     bool // asked before: after a commit without an answer the driver still takes the transaction for running
	total      *mongopatterns.Result
	progress   func()
	do         func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error
}

// run does a batch, in parts if necessary.
func (d *division) run(ctx context.Context, batch []bson.Raw) error {
	limited, stop := pause.Limited(ctx) // for a document that others keep writing
	defer stop()
	pauses := pause.Writers()
	doneBefore, skipped := int64(0), d.total.Skipped
	defer func() { d.takeBackSkipped(doneBefore, skipped) }()
	for {
		var result mongopatterns.Result
		err := d.do(ctx, batch, &result)
		if err == nil {
			return d.count(batch, result)
		}
		conflict := errors.As(err, new(*busy))
		if !conflict && d.ends(err, len(batch)) {
			return d.end(batch, result, err)
		}
		d.total.Done += result.Done // not the rest of the result: the documents are done again
		d.total.Conflicts += result.Conflicts
		doneBefore += result.Done
		if conflict {
			d.total.Conflicts++
			d.progress()
		}
		switch {
		case len(batch) > 1:
			half := len(batch) / 2
			if err := d.run(ctx, batch[:half]); err != nil {
				return err
			}
			return d.run(ctx, batch[half:])
		case !conflict:
			d.total.Examined++
			Fail(d.total, d.collection, batch[0].Lookup("_id"), err)
			return nil
		}
		if over := pauses.Wait(limited); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}

// takeBackSkipped subtracts from Skipped the documents that were done before an error: a later attempt has met them again
// and counted them so, unless its Step counts none as Skipped. skipped was the count before.
func (d *division) takeBackSkipped(doneBefore, skipped int64) {
	d.total.Skipped -= min(doneBefore, d.total.Skipped-skipped)
}

// count adds the result of a batch that is done. With strict, a step that has refused documents itself, and written the
// others, ends the call.
func (d *division) count(batch []bson.Raw, result mongopatterns.Result) error {
	result.Examined += int64(len(batch))
	Add(d.total, result)
	if d.strict {
		return First(&result)
	}
	return nil
}

// ends reports whether an error that is no conflict ends the call.
func (d *division) ends(err error, size int) bool {
	divisible := size > 1 && errors.As(err, new(*large))
	return d.strict && !divisible || !fault.Refused(err) || d.joined
}

// end adds what a batch has done before an error that ends the call.
func (d *division) end(batch []bson.Raw, result mongopatterns.Result, err error) error {
	if result.Unknown == 0 && fault.MayHaveWritten(err) && !d.joined {
		result.Unknown = max(0, int64(len(batch))-result.Done)
	}
	Add(d.total, result)
	return err
}
