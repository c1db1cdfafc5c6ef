package extref

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Options says how the source is kept and who propagates. The zero value keeps a
// version in "version" and propagates in the transaction of the change.
type Options struct {
	// VersionField is the source's field for the version, without dots: a whole
	// number from 0 to math.MaxInt64-1 (int32, int64 or double); missing or null counts as 0. Not used if every target is Unversioned. Default "version".
	VersionField string

	// Outbox makes Update and Replace write an entry there instead of
	// propagating; call Drain. It is for this Ref's source only: an entry's _id
	// is the source's. On a sharded cluster create it beforehand. Default nil.
	Outbox *mongo.Collection

	// Deferred makes Update and Replace change the source only. Watch or
	// Propagate brings the change to the copies. Not with Outbox. Default false.
	Deferred bool

	// Registry encodes IDs and sources. Give the client's own registry if it has
	// one: a collection does not show it. Default nil: the driver's.
	Registry *bson.Registry
}

// A Target is a place in the documents of a collection that holds copies.
type Target struct {
	// Collection holds the copies. Required.
	Collection *mongo.Collection

	// Path is where a document has its copy, or with Array its array of copies;
	// it may be dotted, but not lead through another array. "" puts the copy among
	// the document's own fields. Default "".
	Path string
	// Array says that Path holds an array of copies. A document may hold several
	// of one source. Default false.
	Array bool

	// IDField is the path, inside the copy, of the source's _id; as all paths here it
	// may be dotted, but not lead through an array. Default "_id";
	// with Path "" it must be given.
	IDField string
	// VersionField is the path, inside the copy, of the version. Default: the
	// name in Options.VersionField.
	VersionField string
	// Unversioned leaves the version out of the copies; the package documentation
	// says what that costs. Default false.
	Unversioned bool

	// Fields are the fields that are copied. Required.
	Fields []Field

	// OnDelete is what Delete does with copies of the source. Default Refuse.
	OnDelete DeletePolicy

	// Name is how calls and problems name the target. Default: the collection's
	// name, a dot and Path ("orders.customer"); with Path "" only the
	// collection's name.
	Name string
}

// A Field is a field of the source that is copied.
type Field struct {
	// Path is the field in the source; it may be dotted, but not lead through an
	// array: a source that has one there is ErrInvalid. Required.
	Path string
	// As is the path inside the copy. Default: the last segment of Path.
	As string
	// Policy says whether the copy follows changes. Default Follow.
	Policy Policy
}

// A Policy says what becomes of a copied field when the source's changes.
type Policy int

const (
	// Follow copies every change.
	Follow Policy = iota
	// Freeze keeps the value as it was when the reference was made.
	Freeze
)

// A DeletePolicy says what becomes of copies when their source is deleted.
type DeletePolicy int

const (
	// Refuse keeps the source while another document refers to it.
	Refuse DeletePolicy = iota
	// Keep leaves the last copy as it is. If a source with the same _id is
	// inserted later its version must go on from there; Repair sees to that.
	Keep
	// Unset removes the copy: the field at Path, or with Path "" the fields that
	// it consists of, or the elements of the array.
	Unset
	// Cascade deletes the documents that hold a copy, and nothing that refers to
	// these. Not with Array. Neither touches what is Malformed.
	Cascade
)

// touchField is set and unset in the source within a transaction.
const touchField = "__touch"

// configure checks options and targets and completes them.
func configure(source *mongo.Collection, targets []Target, opts *Options) (Options, []target, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if source == nil {
		return o, nil, errors.New("source: nil collection")
	}
	if o.VersionField == "" {
		o.VersionField = "version"
	}
	if err := fieldpath.CheckName("Options.VersionField", o.VersionField); err != nil {
		return o, nil, err
	}
	switch {
	case o.VersionField == "_id" || o.VersionField == touchField:
		return o, nil, fmt.Errorf("Options.VersionField: %w: %q is taken", fieldpath.ErrInvalid, o.VersionField)
	case o.Outbox != nil && o.Deferred:
		return o, nil, errors.New("Options.Deferred: not together with Options.Outbox")
	case o.Outbox != nil && o.Outbox.Database().Client() != source.Database().Client():
		return o, nil, errors.New("Options.Outbox: of another client than the source")
	case o.Outbox != nil && same(o.Outbox, source):
		return o, nil, errors.New("Options.Outbox: is the source collection")
	case len(targets) == 0:
		return o, nil, errors.New("targets: none")
	}
	names := map[string]bool{}
	out := make([]target, len(targets))
	for i, t := range targets {
		option := fmt.Sprintf("targets[%d]", i)
		var err error
		if out[i], err = t.complete(option, o.VersionField); err != nil {
			return o, nil, err
		}
		if t.Collection.Database().Client() != source.Database().Client() {
			return o, nil, fmt.Errorf("%s.Collection: of another client than the source", option)
		}
		if o.Outbox != nil && same(o.Outbox, t.Collection) {
			return o, nil, fmt.Errorf("%s.Collection: is Options.Outbox", option)
		}
		if names[out[i].Name] {
			return o, nil, fmt.Errorf("%s.Name: %q stands twice", option, out[i].Name)
		}
		names[out[i].Name] = true
		if same(source, t.Collection) {
			if err := out[i].besideSource(option, o.VersionField); err != nil {
				return o, nil, err
			}
		}
		for j := range i {
			a, b := out[j], out[i]
			if !same(a.Collection, b.Collection) {
				continue
			}
			if err := fieldpath.CheckDisjoint(append(a.paths(fmt.Sprintf("targets[%d]", j)), b.paths(option)...)...); err != nil {
				return o, nil, err
			}
		}
	}
	return o, out, nil
}

func same(a, b *mongo.Collection) bool {
	return a.Name() == b.Name() && a.Database().Name() == b.Database().Name()
}

// complete checks a target and sets its defaults.
func (t Target) complete(option, version string) (target, error) {
	if t.Collection == nil {
		return target{}, fmt.Errorf("%s.Collection: nil collection", option)
	}
	if t.Path != "" {
		if err := fieldpath.CheckNamed(option+".Path", t.Path); err != nil {
			return target{}, err
		}
	}
	switch {
	case t.Path == "" && t.Array:
		return target{}, fmt.Errorf("%s.Path: empty: an array needs one", option)
	case t.Path == "" && t.IDField == "":
		return target{}, fmt.Errorf("%s.IDField: must be given with an empty Path", option)
	case t.Path == "_id" || strings.HasPrefix(t.Path, "_id."):
		return target{}, fmt.Errorf("%s.Path: %w: _id cannot change", option, fieldpath.ErrInvalid)
	case t.Unversioned && t.VersionField != "":
		return target{}, fmt.Errorf("%s.VersionField: not together with Unversioned", option)
	case t.OnDelete < Refuse || t.OnDelete > Cascade:
		return target{}, fmt.Errorf("%s.OnDelete: unknown policy %d", option, t.OnDelete)
	case t.OnDelete == Cascade && t.Array:
		return target{}, fmt.Errorf("%s.OnDelete: Cascade is not for an array, use Unset", option)
	case len(t.Fields) == 0:
		return target{}, fmt.Errorf("%s.Fields: none", option)
	}
	if t.Name == "" {
		t.Name = strings.TrimSuffix(t.Collection.Name()+"."+t.Path, ".")
	}
	if t.IDField == "" {
		t.IDField = "_id"
	}
	if t.VersionField == "" && !t.Unversioned {
		t.VersionField = version
	}
	if err := fieldpath.CheckNamed(option+".IDField", t.IDField); err != nil {
		return target{}, err
	}
	if t.VersionField != "" {
		if err := fieldpath.CheckNamed(option+".VersionField", t.VersionField); err != nil {
			return target{}, err
		}
	}
	out := target{Target: t}
	out.Fields = append([]Field(nil), t.Fields...)
	sources := map[string]bool{}
	for i := range out.Fields {
		f, option := &out.Fields[i], fmt.Sprintf("%s.Fields[%d]", option, i)
		if err := fieldpath.CheckNamed(option+".Path", f.Path); err != nil {
			return target{}, err
		}
		if first, _, _ := strings.Cut(f.Path, "."); first == version || first == "_id" || first == touchField {
			return target{}, fmt.Errorf("%s.Path: %w: %q is no field to copy", option, fieldpath.ErrInvalid, f.Path)
		}
		if sources[f.Path] {
			return target{}, fmt.Errorf("%s.Path: %q stands twice", option, f.Path)
		}
		sources[f.Path] = true
		if f.As == "" {
			f.As = f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		}
		if err := fieldpath.CheckNamed(option+".As", f.As); err != nil {
			return target{}, err
		}
		switch f.Policy {
		case Follow:
			out.follow = append(out.follow, *f)
		case Freeze:
			out.freeze = append(out.freeze, *f)
		default:
			return target{}, fmt.Errorf("%s.Policy: unknown policy %d", option, f.Policy)
		}
	}
	paths := out.paths(option)
	if t.Path == "" {
		paths = append(paths, "_id", "_id")
	}
	return out, fieldpath.CheckDisjoint(paths...)
}

// besideSource refuses a copy, in the source's own collection, that would lie upon
// what the document has as a source.
func (t *target) besideSource(option, version string) error {
	own := []string{"Options.VersionField", version}
	for i, f := range t.Fields {
		own = append(own, fmt.Sprintf("%s.Fields[%d].Path", option, i), f.Path)
	}
	copied := t.paths(option)
	for i := 0; i < len(own); i += 2 {
		for j := 0; j < len(copied); j += 2 {
			if err := fieldpath.CheckDisjoint(own[i], own[i+1], copied[j], copied[j+1]); err != nil {
				return err
			}
		}
	}
	return nil
}
