package advise

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
)

// Replay are the reads of one shape, sent to the copy before the pattern is adopted and after.
type Replay struct {
	Query string `json:"query"` // without values
	// Now is what the service sends once the pattern is adopted; "": the same.
	Now  string `json:"now,omitempty"`
	Seen int64  `json:"seen"`
	// Replayed are those with different values, 20 at most. The figures are of them, each sent once.
	Replayed        int64 `json:"replayed"`
	BytesBefore     int64 `json:"bytesBefore"` // of the documents that the server sends
	BytesAfter      int64 `json:"bytesAfter"`
	DocumentsBefore int64 `json:"documentsBefore"` // that it examines
	DocumentsAfter  int64 `json:"documentsAfter"`

	commands []bson.D
}

const (
	replayShapes = 20
	replayValues = 20
)

// rewrite makes of a read that was seen what a service sends once the pattern is adopted: nil if
// that cannot be told from the read alone.
type rewrite func(command bson.D) bson.D

func same(command bson.D) bson.D { return command }

// replays groups the finds and aggregations of a collection that can be sent once more, the commonest
// first. left are those without values, and those that read or write other collections.
func replays(name string, queries []Query) (out []Replay, left int64) {
	known := map[string]bool{}
	for _, q := range queries {
		read := q.Command.Lookup("find").Type != 0 || q.Command.Lookup("aggregate").Type != 0
		if q.Collection != name || !read {
			continue
		}
		command := plainRead(q)
		if command == nil {
			left += max(q.Calls, 1)
			continue
		}
		shape := shapeOf(command, false)
		i := slices.IndexFunc(out, func(r Replay) bool { return r.Query == shape })
		if i < 0 {
			i, out = len(out), append(out, Replay{Query: shape})
		}
		out[i].Seen += max(q.Calls, 1)
		raw, err := bson.Marshal(command)
		if text := string(raw); err == nil && !known[text] && len(out[i].commands) < replayValues {
			known[text] = true
			out[i].commands = append(out[i].commands, command)
		}
	}
	slices.SortStableFunc(out, func(a, b Replay) int { return cmp.Compare(b.Seen, a.Seen) })
	for len(out) > replayShapes {
		left += out[len(out)-1].Seen
		out = out[:len(out)-1]
	}
	return out, left
}

// plainRead is the command of a read, without what belongs to its session.
func plainRead(q Query) bson.D {
	var command bson.D
	if q.shape || bson.Unmarshal(q.Command, &command) != nil || len(command) == 0 {
		return nil
	}
	out := command[:1:1]
	keep := []string{"filter", "sort", "projection", "hint", "collation", "let", "skip", "limit"}
	if out[0].Key == "aggregate" {
		if operators(at(command, "pipeline"), "$out", "$merge", "$lookup", "$graphLookup", "$unionWith") {
			return nil
		}
		keep = []string{"pipeline", "hint", "collation", "let"}
		out = append(out, bson.E{Key: "cursor", Value: bson.D{}})
	}
	for _, e := range command[1:] {
		if slices.Contains(keep, e.Key) {
			out = append(out, e)
		}
	}
	return out
}

// before sends the reads to the copy, and leaves out those that it refuses.
func (r *Replay) before(ctx context.Context, db *mongo.Database) error {
	var sent []bson.D
	for _, command := range r.commands {
		bytes, documents, err := replayed(ctx, db, command)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			sent = append(sent, command)
			r.BytesBefore += bytes
			r.DocumentsBefore += documents
		}
	}
	r.commands, r.Replayed = sent, int64(len(sent))
	return nil
}

// after sends what the reads are then, and reports whether all of them could be told and were answered.
func (r *Replay) after(ctx context.Context, db *mongo.Database, now rewrite) (bool, error) {
	for _, command := range r.commands {
		instead := now(command)
		if instead == nil {
			return false, nil
		}
		if shape := shapeOf(instead, false); shape != r.Query {
			r.Now = shape
		}
		bytes, documents, err := replayed(ctx, db, instead)
		if err != nil {
			return false, ctx.Err()
		}
		r.BytesAfter += bytes
		r.DocumentsAfter += documents
	}
	return len(r.commands) > 0, nil
}

// replayed sends a read and returns the bytes of its documents, and how many the server examines.
func replayed(ctx context.Context, db *mongo.Database, command bson.D) (bytes, documents int64, err error) {
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return db.RunCommandCursor(ctx, command) }) {
		if err != nil {
			return 0, 0, err
		}
		bytes += int64(len(doc))
	}
	plan, err := db.RunCommand(ctx, bson.D{{Key: "explain", Value: command}, {Key: "verbosity", Value: "executionStats"}}).Raw()
	return bytes, documentsExamined(plan), err
}

// documentsExamined adds up the outermost figures of a plan: a stage that reads another collection has its own.
func documentsExamined(plan bson.Raw) (n int64) {
	if own, err := plan.LookupErr("totalDocsExamined"); err == nil {
		n, _ := own.AsInt64OK()
		return n
	}
	elements, _ := plan.Elements()
	for _, e := range elements {
		switch v := e.Value(); v.Type {
		case bson.TypeEmbeddedDocument:
			n += documentsExamined(v.Document())
		case bson.TypeArray:
			n += documentsExamined(bson.Raw(v.Array()))
		}
	}
	return n
}

// ranged turns a find for one series in a range of time into one of the documents that hold it.
func ranged(into string, s span, filter func(id any, from, to time.Time) bson.D) rewrite {
	return func(command bson.D) bson.D {
		asked, _ := at(command, "filter").(bson.D)
		var only traffic
		only.span(asked, 1)
		if command[0].Key != "find" || at(command, "limit") != nil || at(command, "skip") != nil || len(only.spans) != 1 || only.spans[0].id != s.id || only.spans[0].at != s.at {
			return nil
		}
		id := at(asked, s.id)
		if operator, ok := id.(bson.D); ok {
			id = at(operator, "$eq")
		}
		var from, to time.Time
		bounds, _ := at(asked, s.at).(bson.D)
		for _, bound := range bounds {
			date, ok := bound.Value.(bson.DateTime)
			switch {
			case !ok:
				return nil
			case strings.HasPrefix(bound.Key, "$g"):
				from = date.Time()
			case bound.Key == "$lt":
				to = date.Time()
			default:
				to = date.Time().Add(time.Millisecond)
			}
		}
		return bson.D{{Key: "find", Value: into}, {Key: "filter", Value: filter(id, from, to)}}
	}
}

// joined turns a find that needs moved fields into an aggregation that joins them, where its filter
// and order do without.
func joined(cold []string, join mongo.Pipeline) rewrite {
	return func(command bson.D) bson.D {
		r := find(command, 1)
		if pipeline, ok := at(command, "pipeline").(bson.A); ok {
			r = aggregation(pipeline, 1)
		}
		if !slices.ContainsFunc(cold, r.needs) {
			return command
		}
		order := keys(at(command, "sort"))
		if command[0].Key != "find" || slices.ContainsFunc(cold, func(name string) bool {
			return slices.ContainsFunc(append(order, r.match...), func(used string) bool { return related(used, name) })
		}) {
			return nil
		}
		var pipeline bson.A
		for _, stage := range [][2]string{{"filter", "$match"}, {"sort", "$sort"}, {"skip", "$skip"}, {"limit", "$limit"}} {
			if value := at(command, stage[0]); value != nil {
				pipeline = append(pipeline, d(stage[1], value))
			}
		}
		for _, stage := range join {
			pipeline = append(pipeline, stage)
		}
		if projection, ok := at(command, "projection").(bson.D); ok && len(projection) > 0 {
			pipeline = append(pipeline, d("$project", projection))
		}
		return bson.D{{Key: "aggregate", Value: command[0].Value}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}
	}
}

// moved turns a find for one embedded child by its _id into one of the child.
func moved(path, into string) rewrite {
	return func(command bson.D) bson.D {
		filter, _ := at(command, "filter").(bson.D)
		switch {
		case command[0].Key != "find":
			return nil
		case len(filter) == 1 && filter[0].Key == path+"._id":
			return bson.D{{Key: "find", Value: into}, {Key: "filter", Value: d("_id", filter[0].Value)}}
		case find(command, 1).needs(path):
			return nil
		}
		return command
	}
}

// entered turns a find for the value of one field into one of the entry that holds it.
func entered(paths []string, filter func(path string, value any) bson.D) rewrite {
	return func(command bson.D) bson.D {
		out, several := slices.Clone(command), bson.A{}
		i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == "filter" })
		if out[0].Key != "find" || i < 0 || at(out, "projection") != nil || at(out, "hint") != nil || slices.ContainsFunc(keys(at(out, "sort")), func(name string) bool { return slices.Contains(paths, name) }) {
			return nil
		}
		asked, _ := out[i].Value.(bson.D)
		for _, f := range asked {
			_, pattern := f.Value.(bson.Regex)
			switch operator, ok := f.Value.(bson.D); {
			case !slices.Contains(paths, f.Key):
				several = append(several, bson.D{f})
			case pattern || !equals(asked, f.Key): // null is no value: missing fields match it
				return nil
			case ok:
				several = append(several, filter(f.Key, operator[0].Value))
			default:
				several = append(several, filter(f.Key, f.Value))
			}
		}
		if len(several) > 0 {
			out[i].Value = d("$and", several)
		}
		return out
	}
}

// totalled turns an aggregation of the documents with one value into a find of what holds their totals.
func totalled(into string, t totals) rewrite {
	return func(command bson.D) bson.D {
		pipeline, _ := at(command, "pipeline").(bson.A)
		var only traffic
		only.total(pipeline, 1)
		if len(only.totals) != 1 || only.totals[0].key != t.key || only.totals[0].text != t.text {
			return nil
		}
		match, _ := at(pipeline[0].(bson.D), "$match").(bson.D)
		return bson.D{{Key: "find", Value: into}, {Key: "filter", Value: d("_id", at(match, t.key))}}
	}
}
