package advise

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/paging"
)

// Replay are the reads of one shape, sent to the copy before the pattern is adopted and after.
type Replay struct {
	Query string `json:"query"` // without values
	// Now is what the service sends once the pattern is adopted, or "" if that is the same.
	Now  string `json:"now,omitempty"`
	Seen int64  `json:"seen"`
	// Replayed counts those with different values, 20 at most. The figures are of these, each sent once.
	Replayed        int64 `json:"replayed"`
	BytesBefore     int64 `json:"bytesBefore"` // of the documents that the server sends
	BytesAfter      int64 `json:"bytesAfter"`
	DocumentsBefore int64 `json:"documentsBefore"` // that it examines
	DocumentsAfter  int64 `json:"documentsAfter"`
	// Lost is the first value of an answer that the service no longer gets, and LostIn is how many answers lack one.
	Lost   string `json:"lost,omitempty"`
	LostIn int64  `json:"lostIn,omitempty"`

	commands []command
}

const (
	replayShapes = 20
	replayValues = 20
)

// replays groups the finds and aggregations of a collection that can be sent once more, the commonest
// first. left are those without values, and those that read or write other collections.
func replays(name string, copied []string, commands []command) (out []Replay, left int64) {
	known := map[string]int{} // the place of a command in its Replay
	for _, q := range commands {
		if q.Collection != name || q.name != "find" && q.name != "aggregate" {
			continue
		}
		command, ok := q.plain(copied)
		if !ok {
			left += q.calls
			continue
		}
		shape := shapeOf(command.body, false)
		i := slices.IndexFunc(out, func(r Replay) bool { return r.Query == shape })
		if i < 0 {
			i, out = len(out), append(out, Replay{Query: shape})
		}
		out[i].Seen += q.calls
		text := string(command.Command)
		if own, again := known[text]; again {
			out[i].commands[own].calls += command.calls
		} else if len(out[i].commands) < replayValues {
			known[text] = len(out[i].commands)
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

// plain is a read without what belongs to its session. ok is false without values, and if it reads collections that the
// copy does not have.
func (c command) plain(copied []string) (out command, ok bool) {
	for _, p := range c.pipeline {
		_, value := stage(p)
		document, _ := value.(bson.D)
		from, joins := at(document, "from").(string)
		if joins && !slices.Contains(copied, from) || operators(value, "$lookup", "$graphLookup", "$unionWith", "$out", "$merge") {
			return c, false
		}
	}
	raw, err := bson.Marshal(sendable(c.body))
	if c.shape || err != nil || slices.ContainsFunc(c.pipeline, func(p any) bool {
		name, _ := stage(p)
		return slices.Contains([]string{"$out", "$merge", "$unionWith"}, name)
	}) {
		return c, false
	}
	return parse(Query{Collection: c.Collection, Command: raw, Calls: c.Calls})
}

// sendable is a read without what belongs to its session.
func sendable(read bson.D) bson.D {
	body := slices.Clone(read[:1])
	if body[0].Key == "aggregate" {
		body = append(body, bson.E{Key: "cursor", Value: bson.D{}})
	}
	for _, e := range read[1:] {
		if slices.Contains([]string{"filter", "sort", "projection", "hint", "collation", "let", "skip", "limit", "pipeline"}, e.Key) {
			body = append(body, e)
		}
	}
	return body
}

// of is the read of other collections that have the same documents, by name.
func (c command) of(originals map[string]string) bson.D {
	out := slices.Clone(c.body)
	out[0].Value = originals[c.Collection]
	var stages bson.A
	for _, p := range c.pipeline {
		operator, value := stage(p)
		document, _ := value.(bson.D)
		from, _ := at(document, "from").(string)
		if name := originals[from]; name != "" {
			p = d(operator, with(document, "from", name))
		}
		stages = append(stages, p)
	}
	if stages != nil {
		return with(out, "pipeline", stages)
	}
	return out
}

// service is how a service reads once a pattern is adopted.
type service struct {
	// read answers a read that was seen. told is false if the read alone does not tell what the service sends.
	read func(ctx context.Context, m *meter, c command) (answer []bson.D, told bool, err error)
	// asked is the part of an earlier answer's document that the service reads. nil: all of it.
	asked func(c command, document bson.D) bson.D
	// unordered: a list comes in another order.
	unordered bool
	// refused are the documents that were not adopted.
	refused int64
}

// rewrite makes of a read that was seen what a service sends once the pattern is adopted: nil if
// that cannot be told from the read alone.
type rewrite func(c command) bson.D

// sending is a service whose answer is that of one other command.
func sending(now rewrite) service {
	return service{read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
		instead := now(c)
		if instead == nil {
			return nil, false, nil
		}
		answer, err := m.read(ctx, instead)
		return answer, true, err
	}}
}

// meter sends reads and adds up what they cost.
type meter struct {
	db               *mongo.Database
	bytes, documents int64
	shapes           []string
}

func (m *meter) read(ctx context.Context, command bson.D) (answer []bson.D, err error) {
	if shape := shapeOf(command, false); !slices.Contains(m.shapes, shape) {
		m.shapes = append(m.shapes, shape)
	}
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return m.db.RunCommandCursor(ctx, command) }) {
		if err != nil {
			return nil, err
		}
		var document bson.D
		if err := bson.Unmarshal(raw, &document); err != nil {
			return nil, err
		}
		m.bytes += int64(len(raw))
		answer = append(answer, document)
	}
	plan, err := m.db.RunCommand(ctx, bson.D{{Key: "explain", Value: command}, {Key: "verbosity", Value: "executionStats"}}).Raw()
	m.documents += documentsExamined(plan)
	return answer, err
}

// replay sends the reads to the collections that have the documents as they were, and as the service sends them
// to where the pattern is adopted, and compares the answers. It leaves out reads that the server refuses, and those that do
// not tell what the service sends. untold are the calls of these.
func (r *Replay) replay(ctx context.Context, db *mongo.Database, originals map[string]string, s service) (untold int64, err error) {
	for _, c := range r.commands {
		earlier, now := &meter{db: db}, &meter{db: db}
		before, err := earlier.read(ctx, c.of(originals))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil {
			continue
		}
		after, told, err := s.read(ctx, now, c)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil { // if the server refuses another command than before, that is not what the service sends
			told = slices.Contains(now.shapes, r.Query)
		}
		if !told {
			untold += c.calls
			continue
		}
		lost := ""
		if err != nil {
			lost = "all: " + err.Error()
		} else {
			lost = s.lost(c, before, after)
		}
		if lost != "" {
			r.LostIn++
			r.Lost = cmp.Or(r.Lost, lost)
		}
		if shapes := strings.Join(now.shapes, ", then "); shapes != r.Query && len(shapes) > len(r.Now) {
			r.Now = shapes
		}
		r.Replayed++
		r.BytesBefore += earlier.bytes
		r.DocumentsBefore += earlier.documents
		r.BytesAfter += now.bytes
		r.DocumentsAfter += now.documents
	}
	return untold, nil
}

// lost is the first value of the documents before that those after lack, as a path; "" if they have all. Documents
// may come in another order. Where a read takes some of several that are as good, those that come must have the fields.
func (s service) lost(c command, before, after []bson.D) string {
	limited := c.limit != nil || operators(c.pipeline, "$limit", "$sample")
	left := slices.Clone(after)
	for i, document := range before {
		if s.asked != nil {
			document = s.asked(c, document)
		}
		same := slices.IndexFunc(left, func(d bson.D) bool { return missing(document, d, s.unordered) == "" })
		if same < 0 {
			id := at(document, "_id")
			same = slices.IndexFunc(left, func(d bson.D) bool { return id != nil && missing(id, at(d, "_id"), false) == "" })
			switch {
			case same >= 0:
				return missing(document, left[same], s.unordered)
			case len(left) == 0:
				return fmt.Sprintf("document %d of %d", i+1, len(before))
			case !limited:
				return cmp.Or(missing(document, left[0], s.unordered), "a document")
			}
			same = 0
			for _, f := range document {
				if !slices.ContainsFunc(left[0], func(e bson.E) bool { return e.Key == f.Key }) {
					return f.Key
				}
			}
		}
		left = slices.Delete(left, same, same+1)
	}
	return ""
}

const itself = "."

// missing is the path of the first value of a that b lacks: more fields are no loss, nor are numbers of another type.
func missing(a, b any, unordered bool) string {
	switch v := a.(type) {
	case bson.D:
		document, ok := b.(bson.D)
		for _, f := range v {
			i := slices.IndexFunc(document, func(e bson.E) bool { return e.Key == f.Key })
			if i < 0 {
				return f.Key
			}
			if path := missing(f.Value, document[i].Value, unordered); path != "" {
				return strings.TrimSuffix(f.Key+"."+path, "."+itself)
			}
		}
		if !ok {
			return itself
		}
	case bson.A:
		list, ok := b.(bson.A)
		if !ok || len(list) != len(v) {
			return itself
		}
		list = slices.Clone(list)
		for i, element := range v {
			same := 0
			if unordered {
				same = slices.IndexFunc(list, func(other any) bool { return missing(element, other, true) == "" })
			}
			if same < 0 || missing(element, list[same], unordered) != "" {
				return fmt.Sprint(i)
			}
			list = slices.Delete(list, same, same+1)
		}
	default:
		if value.Compare(value.New(a), value.New(b)) != 0 {
			return itself
		}
	}
	return ""
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

// ranging reads the documents of one series in a range of time where they are packed. They no longer have an _id.
func ranging(into string, s span, filter func(id any, from, to time.Time) bson.D, rows func(ctx context.Context, id any, from, to time.Time) iter.Seq2[bson.D, error]) service {
	return service{
		asked: func(_ command, document bson.D) bson.D {
			return slices.DeleteFunc(document, func(e bson.E) bool { return e.Key == "_id" })
		},
		read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
			id, from, to, ok := s.bounds(c)
			if !ok {
				return nil, false, nil
			}
			if _, err := m.read(ctx, bson.D{{Key: "find", Value: into}, {Key: "filter", Value: filter(id, from, to)}}); err != nil {
				return nil, true, err
			}
			answer, err := cursor.Collect(rows(ctx, id, from, to))
			for i := range answer {
				for _, name := range s.left() {
					if name != "_id" {
						answer[i] = append(answer[i], bson.E{Key: name, Value: equal(c.filter, name)})
					}
				}
			}
			return answer, true, err
		},
	}
}

// bounds are what a find for one series in a range of time asks for.
func (s span) bounds(c command) (id any, from, to time.Time, ok bool) {
	several := slices.ContainsFunc(s.ids(), func(name string) bool { return !equals(c.filter, name) })
	if own, ok := c.span(); !ok || several || c.name != "find" || c.limit != nil || c.skip != nil || own.field() != s.field() || own.at != s.at {
		return nil, from, to, false
	}
	id = s.of(func(name string) any { return equal(c.filter, name) })
	bounds, _ := at(c.filter, s.at).(bson.D)
	for _, bound := range bounds {
		date, ok := bound.Value.(bson.DateTime)
		switch {
		case !ok:
			return nil, from, to, false
		case strings.HasPrefix(bound.Key, "$g"):
			from = date.Time()
		case bound.Key == "$lt":
			to = date.Time()
		default:
			to = date.Time().Add(time.Millisecond)
		}
	}
	return id, from, to, true
}

// equal is the one value of a field that a filter asks for.
func equal(filter bson.D, name string) any {
	value := at(filter, name)
	if operator, ok := value.(bson.D); ok {
		return at(operator, "$eq")
	}
	return value
}

// joined turns a find that needs moved fields into an aggregation that joins them, where its filter
// and order do without.
func joined(cold []string, join mongo.Pipeline) rewrite {
	return func(c command) bson.D {
		if !slices.ContainsFunc(cold, c.read.needs) {
			return c.body
		}
		if c.name != "find" || slices.ContainsFunc(cold, func(name string) bool {
			return slices.ContainsFunc(append(keys(c.sort), c.read.match...), func(used string) bool { return related(used, name) })
		}) {
			return nil
		}
		pipeline := c.stages()
		for _, stage := range join {
			pipeline = append(pipeline, stage)
		}
		projection, _ := at(c.body, "projection").(bson.D)
		for _, f := range projection { // a stage writes $slice otherwise than a find
			if slice, ok := f.Value.(bson.D); ok && at(slice, "$slice") != nil {
				return nil
			}
		}
		if len(projection) > 0 {
			pipeline = append(pipeline, d("$project", projection))
		}
		return bson.D{{Key: "aggregate", Value: c.Collection}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}
	}
}

// extracted reads one embedded child, by its _id or another field, where the children are. Reads that need no children are
// the same.
func extracted(path, into, by string) service {
	wanted := func(c command) (id any, ok bool) {
		others := slices.ContainsFunc(c.read.uses, func(name string) bool { return !related(name, path) })
		if c.name != "find" || len(c.filter) != 1 || c.filter[0].Key != path+"."+by || strings.Contains(by, ".") || others {
			return nil, false
		}
		return c.filter[0].Value, true
	}
	same := sending(func(c command) bson.D {
		if c.name != "find" || c.read.needs(path) {
			return nil
		}
		return c.body
	})
	return service{
		read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
			id, ok := wanted(c)
			if !ok {
				return same.read(ctx, m, c)
			}
			answer, err := m.read(ctx, bson.D{{Key: "find", Value: into}, {Key: "filter", Value: d(by, id)}})
			return answer, true, err
		},
		asked: func(c command, document bson.D) bson.D {
			id, ok := wanted(c)
			children, _ := at(document, path).(bson.A)
			for _, child := range children {
				if c, _ := child.(bson.D); ok && missing(id, at(c, by), false) == "" {
					return c
				}
			}
			return document
		},
	}
}

// overflowing reads lists that continue in other documents.
func overflowing(into, path string, limit int64, filter func(id any) bson.D) service {
	return service{read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
		r, whole := c.read, c.whole(path)
		newest := !slices.ContainsFunc(r.parts, func(p part) bool { return related(p.path, path) && (!p.last || p.n == 0 || 2*p.n > limit) })
		switch {
		case !r.needs(path), newest && !whole && len(r.parts) > 0 && !slices.Contains(r.uses, path):
			answer, err := m.read(ctx, c.body)
			return answer, true, err
		case !whole:
			return nil, false, nil
		}
		moved := path + "_moved"
		answer, err := m.read(ctx, c.including(moved))
		for i, document := range answer {
			if _, ok := at(document, moved).(bson.ObjectID); !ok || err != nil {
				continue
			}
			id := at(document, "_id")
			if id == nil {
				return nil, false, nil
			}
			var older []bson.D
			older, err = m.read(ctx, bson.D{{Key: "find", Value: into}, {Key: "filter", Value: filter(id)}, {Key: "sort", Value: d("n", 1)}})
			all := bson.A{}
			for _, part := range append(older, document) {
				list, _ := at(part, path).(bson.A)
				all = append(all, list...)
			}
			answer[i] = with(document, path, all)
		}
		return answer, true, err
	}}
}

// keeping reads lists after subset has taken them over: their best elements stay in the document, and another
// collection has all of them.
func keeping(into, path string, w want, items func(id any) bson.D, sort bson.D) service {
	return service{unordered: true, read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
		r, whole := c.read, c.whole(path)
		best := slices.ContainsFunc(r.parts, func(p part) bool { return p.path == path && 0 < p.n && p.n <= w.n && p.last == w.last })
		switch {
		case slices.ContainsFunc(r.parts, func(p part) bool { return p.path == path && p.unstable }):
			return nil, false, nil // the answer before is one of several
		case !r.needs(path), best && !slices.Contains(r.match, path):
			answer, err := m.read(ctx, c.body)
			return answer, true, err
		case !whole:
			return nil, false, nil
		}
		answer, err := m.read(ctx, c.body)
		for i, document := range answer {
			if at(document, path) == nil || err != nil {
				continue
			}
			id := at(document, "_id")
			if id == nil {
				return nil, false, nil
			}
			var found []bson.D
			found, err = m.read(ctx, bson.D{{Key: "find", Value: into}, {Key: "filter", Value: items(id)}, {Key: "sort", Value: sort}})
			all := bson.A{}
			for _, item := range found {
				all = append(all, item)
			}
			answer[i] = with(document, path, all)
		}
		return answer, true, err
	}}
}

// whole reports a find that gets a list as it is.
func (c command) whole(path string) bool {
	inside := slices.ContainsFunc(c.read.uses, func(name string) bool { return strings.HasPrefix(name, path+".") }) ||
		slices.Contains(c.read.match, path) || slices.Contains(keys(c.sort), path)
	part := slices.ContainsFunc(c.read.parts, func(p part) bool { return related(p.path, path) })
	projection, _ := at(c.body, "projection").(bson.D)
	_, computed := at(projection, path).(bson.D)
	return c.name == "find" && c.read.needs(path) && !part && !inside && !computed
}

// including is a find that gets one field more.
func (c command) including(name string) bson.D {
	if c.read.all {
		return c.body
	}
	projection, _ := at(c.body, "projection").(bson.D)
	return with(c.body, "projection", append(slices.Clone(projection), bson.E{Key: name, Value: 1}))
}

// with is a document with another value of a field.
func with(document bson.D, name string, value any) bson.D {
	out := slices.Clone(document)
	for i, e := range out {
		if e.Key == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, bson.E{Key: name, Value: value})
}

// entering reads fields that are entries of an array, and puts them back in their place.
func entering(paths []string, array string, filter func(path string, value any) bson.D) service {
	now := sending(entered(paths, filter))
	return service{read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
		answer, told, err := now.read(ctx, m, c)
		for i, document := range answer {
			entries, _ := at(document, array).(bson.A)
			for _, entry := range entries {
				e, _ := entry.(bson.D)
				path, _ := at(e, "k").(string)
				above, name, nested := strings.Cut(path, ".")
				if !nested {
					answer[i] = with(answer[i], path, at(e, "v"))
					continue
				}
				inner, _ := at(answer[i], above).(bson.D)
				answer[i] = with(answer[i], above, with(inner, name, at(e, "v")))
			}
		}
		return answer, told, err
	}}
}

// entered turns a find for the value of one field into one of the entry that holds it.
func entered(paths []string, filter func(path string, value any) bson.D) rewrite {
	return func(c command) bson.D {
		out, several := slices.Clone(c.body), bson.A{}
		i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == "filter" })
		if c.name != "find" || i < 0 || at(out, "projection") != nil || at(out, "hint") != nil || slices.ContainsFunc(keys(c.sort), func(name string) bool { return slices.Contains(paths, name) }) {
			return nil
		}
		for _, f := range c.filter {
			_, pattern := f.Value.(bson.Regex)
			switch operator, ok := f.Value.(bson.D); {
			case !slices.Contains(paths, f.Key):
				several = append(several, bson.D{f})
			case pattern || !equals(c.filter, f.Key): // null is no value: missing fields match it
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

// behind makes of a page that skips one that begins behind the last document of the page before.
func behind(pages *paging.Pager[bson.D], order bson.D) func(ctx context.Context, db *mongo.Database, c command) (find bson.D, told bool, err error) {
	return func(ctx context.Context, db *mongo.Database, c command) (bson.D, bool, error) {
		skip, _ := number(c.skip)
		sorted := slices.Equal(keys(c.sort), keys(order)) || len(c.sort) == 0 && order[0].Key == "_id"
		switch {
		case skip == 0 && !c.skips:
			return c.body, true, nil
		case skip <= 0 || !sorted || c.name != "find" && len(c.pipeline) != len(c.stages()):
			return nil, false, nil
		}
		over := append(bson.D{}, c.filter...)
		first := c.asFind()
		before, err := db.Collection(c.Collection).Find(ctx, over, options.Find().SetSort(pages.Sort(paging.Request{})).SetSkip(skip-1).SetLimit(1))
		if err != nil {
			return nil, true, err
		}
		var last []bson.D
		if err := before.All(ctx, &last); err != nil || len(last) == 0 {
			return first, true, err // behind the end
		}
		token, err := pages.Token(over, last[0])
		if err != nil {
			return nil, true, err
		}
		filter, err := pages.Filter(over, paging.Request{After: token})
		if err != nil {
			return nil, true, err
		}
		first = slices.DeleteFunc(first, func(e bson.E) bool { return e.Key == "skip" || e.Key == "hint" })
		return with(with(first, "filter", filter), "sort", pages.Sort(paging.Request{})), true, nil
	}
}

// climbing reads the nodes above and below by the array of ancestors. The rest of the pipeline stays.
func climbing(field string) service {
	s := sending(func(c command) bson.D {
		var stages bson.A
		for _, p := range c.pipeline {
			name, value := stage(p)
			graph, _ := value.(bson.D)
			from, to := at(graph, "connectFromField"), at(graph, "connectToField")
			lookup := bson.D{{Key: "from", Value: at(graph, "from")}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "ancestors"}, {Key: "as", Value: at(graph, "as")}}
			switch {
			case name != "$graphLookup":
				stages = append(stages, p)
				continue
			case len(graph) != 5: // a depth, or a filter
				return nil
			case from == "_id" && to == field && at(graph, "startWith") == "$_id":
			case from == field && to == "_id" && at(graph, "startWith") == "$"+field:
				lookup[1].Value, lookup[2].Value = "ancestors", "_id"
			default:
				return nil
			}
			stages = append(stages, d("$lookup", lookup))
		}
		if stages == nil {
			return c.body
		}
		return with(c.body, "pipeline", stages)
	})
	s.unordered = true
	return s
}

// target selects the documents that hold what a command adds up.
func (t totals) target(c command) bson.D {
	if t.all {
		return bson.D{}
	}
	return d("_id", at(c.filter, t.key))
}

// totalling reads the totals of the documents with one value where they are stored. The stages behind them stay.
func totalling(into string, t totals) service {
	s := sending(func(c command) bson.D {
		if own, ok := c.totals(); !ok || !own.same(t) {
			return nil
		}
		group := slices.IndexFunc(c.pipeline, func(p any) bool { name, _ := stage(p); return name == "$group" || name == "$count" })
		filter, behind := t.target(c), c.pipeline[group+1:]
		if len(behind) == 0 {
			return bson.D{{Key: "find", Value: into}, {Key: "filter", Value: filter}}
		}
		return bson.D{{Key: "aggregate", Value: into}, {Key: "pipeline", Value: append(bson.A{d("$match", filter)}, behind...)}, {Key: "cursor", Value: bson.D{}}}
	})
	s.asked = func(_ command, document bson.D) bson.D { // the group may have had any _id
		return slices.DeleteFunc(document, func(e bson.E) bool { return e.Key == "_id" })
	}
	return s
}
