package prealloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

var (
	// ErrTaken: another holder has a cell. The error of Hold, Claim and Release is a *TakenError.
	// It matches mongopatterns.ErrConflict.
	ErrTaken = fault.New("taken", mongopatterns.ErrConflict)
	// ErrNoCell: the grid does not have this cell. It matches mongopatterns.ErrNotFound.
	ErrNoCell = fault.New("no such cell", mongopatterns.ErrNotFound)
)

// A TakenError lists the cells that other holders have. It matches ErrTaken.
type TakenError struct{ Cells []Cell }

func (e *TakenError) Error() string {
	names := make([]string, len(e.Cells))
	for i, c := range e.Cells {
		names[i] = c.String()
	}
	return fmt.Sprintf("taken: %s", strings.Join(names, ", "))
}

// Unwrap returns ErrTaken.
func (e *TakenError) Unwrap() error { return ErrTaken }

// A Cell names a cell by its section and its name in the section. Without sections (Options.Flat)
// Section is "".
type Cell struct {
	Section string `json:"section,omitempty"`
	Name    string `json:"name"`
}

// At returns the cell of this name in a section, such as At("C", "7").
func At(section, name string) Cell { return Cell{Section: section, Name: name} }

// String returns section and name with a dot between them, C.7, as in the path of the cell.
func (c Cell) String() string {
	if c.Section == "" {
		return c.Name
	}
	return c.Section + "." + c.Name
}

// Row returns the cells "1" to n of a section.
func Row(section string, n int) []Cell {
	out := make([]Cell, max(0, n))
	for i := range out {
		out[i] = Cell{section, strconv.Itoa(i + 1)}
	}
	return out
}

// DayCells returns a cell, such as "2019-04-01", for each calendar day from first to last, in the time
// zone of first, for which keep returns true; a nil keep accepts all days. The cells have no
// section. It returns ErrInvalid for more than 100,000 days, and for years that do not have four digits.
func DayCells(first, last time.Time, keep func(day time.Time) bool) (cells []Cell, err error) {
	defer fault.In(&err, "prealloc.DayCells")
	last = last.In(first.Location())
	if first.Year() < 0 || last.Year() > 9999 {
		return nil, fault.Invalid("the years %d to %d do not have four digits", first.Year(), last.Year())
	}
	days := civilDay(last) - civilDay(first)
	if days >= maxDays {
		return nil, fault.Invalid("%d days are more than %d", days+1, maxDays)
	}
	year, month, day := first.Date()
	for range days + 1 {
		// Noon, because midnight does not exist on days on which the clock jumps forward then. If
		// the zone skips a whole day, noon of that day is on a neighbouring day.
		date := time.Date(year, month, day, 12, 0, 0, 0, first.Location())
		name := date.Format(time.DateOnly)
		if name == civil(year, month, day) && (keep == nil || keep(date)) {
			cells = append(cells, Cell{Name: name})
		}
		day++
	}
	return cells, nil
}

const maxDays = 100_000

// civilDay numbers the calendar days of a zone.
func civilDay(t time.Time) int64 {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// civil returns the name of a calendar day, independent of any zone.
func civil(year int, month time.Month, day int) string {
	return time.Date(year, month, day, 12, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// Options of Grids. The zero value of each is its default.
type Options struct {
	// CellsField is the path of the cells in a grid. Default "cells".
	CellsField string
	// HolderField and UntilField are the fields of a cell that hold its holder and the end of a
	// hold. Default "by" and "until".
	HolderField, UntilField string
	// Flat says that the cells are directly in CellsField, without sections. Default false.
	Flat bool
	// Scope separates several tenants in the same collection. See Tenants in the manual of mongopatterns. Its fields are
	// part of every filter, start the shard key and are stored in every new grid. The values are strings, numbers and
	// similar. Null, an array or a regular expression is refused. Insert with another value is ErrInvalid, and a grid of
	// another tenant is not found. Default none: all documents of the collection.
	Scope bson.D
	// Registry and BSON encode IDs and holders. By default BSON is what the client has. The client's registry cannot be
	// read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Grids reads and writes the grids of a collection. ID is the type of _id, H that of holders.
type Grids[ID, H any] struct{ core core }

// New returns Grids for coll. It does no I/O.
func New[ID, H any](coll *mongo.Collection, opts *Options) (g *Grids[ID, H], err error) {
	defer fault.In(&err, "prealloc.New")
	if err := cmp.Or(codec.CheckOrder[ID]("ID"), codec.CheckOrder[H]("H")); err != nil {
		return nil, err
	}
	var c core
	if opts != nil {
		c.Options = *opts
	}
	c.Scope = slices.Clone(c.Scope)
	c.codec = codec.New(coll, c.Registry, c.BSON)
	if err := config.Collections("coll", coll); err != nil {
		return nil, err
	}
	id := "_id" // no option, but CellsField must not lie inside it
	if err := config.Apply(append(config.Scope(c.Scope), config.Named("Options.CellsField", &c.CellsField, "cells"), config.Name("_id", &id, ""))...); err != nil {
		return nil, err
	}
	of, err := scope.New(c.codec, c.Scope)
	if err != nil {
		return nil, err
	}
	c.coll = scoped.On(coll).In(of)
	if err := config.Apply(
		config.Name("Options.HolderField", &c.HolderField, "by"),
		config.Name("Options.UntilField", &c.UntilField, "until")); err != nil {
		return nil, err
	}
	c.holder = func(by bson.RawValue) error {
		_, err := codec.DecodeCompared[H](c.codec, by)
		return err
	}
	c.prepare()
	return &Grids[ID, H]{core: c}, nil
}

// Indexes returns no indexes, because every call finds its grid by _id.
func (g *Grids[ID, H]) Indexes() map[string][]mongo.IndexModel {
	return map[string][]mongo.IndexModel{}
}

// EnsureIndexes creates no index. Like Insert and Check it refuses a collection with a default
// collation, because with one the holder "order-a" may also be "ORDER-A".
//
// Cost: 1 round trip. If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (g *Grids[ID, H]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "prealloc.EnsureIndexes")
	defer fault.In(&err, "prealloc.EnsureIndexes")
	if err := collation.Refuse(ctx, g.core.coll); err != nil {
		return err
	}
	return g.core.codec.CheckClient(ctx, g.core.coll, reflect.TypeFor[ID](), reflect.TypeFor[H]())
}

// ShardKey returns the recommended shard key, which is the scope and then _id, by collection name.
func (g *Grids[ID, H]) ShardKey() map[string]bson.D {
	return map[string]bson.D{g.core.coll.Name(): g.core.coll.Scope().Keys(expr.D("_id", 1))}
}

// Insert stores a grid with these cells, all free, in this order. fields holds the other fields of
// the grid, as a document, or is nil. It must hold neither _id nor the first name of
// Options.CellsField, also if that is a longer path. If the grid exists, Insert returns
// mongopatterns.ErrExists.
//
// Cost: 2 round trips, 1 document written.
func (g *Grids[ID, H]) Insert(ctx context.Context, id ID, fields any, cells ...Cell) (err error) {
	ctx = comment.Call(ctx, "prealloc.Insert")
	defer fault.In(&err, "prealloc.Insert")
	return g.core.create(ctx, id, fields, cells)
}

// Hold holds free cells until ttl from now, by the server's clock. A cell that the holder already
// holds is held for ttl from now. A cell that the holder has claimed stays claimed. If other
// holders have some of the cells, none is held, and [ErrTaken] lists theirs.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more to say why.
func (g *Grids[ID, H]) Hold(ctx context.Context, id ID, holder H, ttl time.Duration, cells ...Cell) (err error) {
	ctx = comment.Call(ctx, "prealloc.Hold")
	defer fault.In(&err, "prealloc.Hold")
	return g.core.hold(ctx, id, holder, ttl, cells)
}

// Claim takes cells permanently, both free cells and those that the holder already has. This also
// confirms a hold that has ended, if nobody else has taken the cell since. If other holders have
// some of the cells, none is taken, and [ErrTaken] lists theirs.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more to say why.
func (g *Grids[ID, H]) Claim(ctx context.Context, id ID, holder H, cells ...Cell) (err error) {
	ctx = comment.Call(ctx, "prealloc.Claim")
	defer fault.In(&err, "prealloc.Claim")
	return g.core.claim(ctx, id, holder, cells)
}

// Release frees cells of the holder, claimed or held. Cells that are free already are accepted. If
// another holder has one of the cells, Release returns [ErrTaken] and frees none. This also happens
// when Release is repeated after a lost answer, if someone has taken a cell that the first call
// freed.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more to say why.
func (g *Grids[ID, H]) Release(ctx context.Context, id ID, holder H, cells ...Cell) (err error) {
	ctx = comment.Call(ctx, "prealloc.Release")
	defer fault.In(&err, "prealloc.Release")
	return g.core.release(ctx, id, holder, cells)
}

// HoldAdjacent holds the first n free cells, in the order of the grid, that follow each other in a
// section, and returns them. If sections are given, it looks only in these, and returns ErrNoCell for
// one that the grid does not have. If there are no such cells, it returns ErrTaken.
//
// It can be repeated, after a lost answer and after Claim. If the holder already has n such cells,
// held or claimed, HoldAdjacent returns the first of these, and those that are held are held for ttl
// from now. For more cells, another n or other sections, use another holder.
//
// Cost: 2 round trips, 1 document written, index _id; 2 more each time that
// somebody took one of them between the two.
func (g *Grids[ID, H]) HoldAdjacent(ctx context.Context, id ID, holder H, ttl time.Duration, n int, sections ...string) (cells []Cell, err error) {
	ctx = comment.Call(ctx, "prealloc.HoldAdjacent")
	defer fault.In(&err, "prealloc.HoldAdjacent")
	if n < 1 {
		return nil, fault.Invalid("n: it is %d and must be at least 1", n)
	}
	by, err := g.core.named(holder)
	if err != nil {
		return nil, err
	}
	for {
		all, err := g.core.read(ctx, cursor.Primary(g.core.coll), id)
		if err != nil {
			return nil, err
		}
		for _, section := range sections {
			if !slices.ContainsFunc(all, func(s state) bool { return s.cell.Section == section }) {
				return nil, g.core.of(id, fmt.Errorf("%w: section %q", ErrNoCell, section))
			}
		}
		if len(sections) > 0 {
			all = slices.DeleteFunc(all, func(s state) bool { return !slices.Contains(sections, s.cell.Section) })
		}
		cells = adjacent(all, n, func(s state) bool {
			return !s.free && value.Same(s.fields.Lookup(g.core.HolderField), by)
		})
		if cells == nil {
			cells = adjacent(all, n, func(s state) bool { return s.free })
		}
		if cells == nil {
			return nil, g.core.of(id, fmt.Errorf("%w: there are no %d free cells in a row", ErrTaken, n))
		}
		if err := g.core.hold(ctx, id, by, ttl, cells); !errors.Is(err, ErrTaken) {
			return cells, err
		}
	}
}

// adjacent returns the first n successive cells of a section for which may returns true.
func adjacent(all []state, n int, may func(state) bool) []Cell {
	var run []Cell
	for _, s := range all {
		if !may(s) || len(run) > 0 && run[0].Section != s.cell.Section {
			run = nil
		}
		if may(s) {
			run = append(run, s.cell)
		}
		if len(run) == n {
			return run
		}
	}
	return nil
}

// A State is a cell and its holder.
type State[H any] struct {
	Cell Cell `json:"cell"`
	// Free says that the cell can be taken. By is zero then.
	Free bool `json:"free"`
	By   H    `json:"by,omitzero"`
	// Until is the end of a hold, the zero time for a claim.
	Until time.Time `json:"until,omitzero"`
	// Fields is the whole cell as it is stored, with your own fields.
	Fields bson.Raw `json:"-"`
}

// Cells returns all cells of a grid, in the order in which it was made. If there is no such grid, it
// returns mongopatterns.ErrNotFound. If a holder is not an H, such as the text "7" where holders are
// ints, it returns mongopatterns.ErrMalformed, which names the cell.
//
// Cost: 1 round trip, index _id.
func (g *Grids[ID, H]) Cells(ctx context.Context, id ID) (out []State[H], err error) {
	ctx = comment.Call(ctx, "prealloc.Cells")
	defer fault.In(&err, "prealloc.Cells")
	raw, err := g.core.read(ctx, g.core.coll, id)
	if err != nil {
		return nil, err
	}
	out = make([]State[H], 0, len(raw))
	for _, s := range raw {
		state := State[H]{Cell: s.cell, Free: s.free, Fields: s.fields}
		if !s.free {
			if state.By, err = codec.DecodeCompared[H](g.core.codec, s.fields.Lookup(g.core.HolderField)); err != nil {
				return nil, g.core.of(id, fmt.Errorf("cell %s: %w", s.cell, err))
			}
			if until, ok := s.fields.Lookup(g.core.UntilField).TimeOK(); ok {
				state.Until = until
			}
		}
		out = append(out, state)
	}
	return out, nil
}

// A Count holds the number of cells of a section in each state.
type Count struct {
	Section string `json:"section" bson:"section"`
	Free    int64  `json:"free" bson:"free"`
	Held    int64  `json:"held" bson:"held"`
	Claimed int64  `json:"claimed" bson:"claimed"`
}

// Counts returns the exact number of cells in each state, by section, in the order of the grid. The
// server counts.
//
// Cost: 1 round trip, index _id.
func (g *Grids[ID, H]) Counts(ctx context.Context, id ID) (out []Count, err error) {
	ctx = comment.Call(ctx, "prealloc.Counts")
	defer fault.In(&err, "prealloc.Counts")
	return g.core.counts(ctx, id)
}

// CountsPipeline returns stages that add an array "sections" of [Count] documents to each grid. Put
// them after your own stages, such as a $match.
func (g *Grids[ID, H]) CountsPipeline() mongo.Pipeline { return g.core.countsPipeline() }

// Filter selects a grid.
func (g *Grids[ID, H]) Filter(id ID) bson.D {
	return g.core.coll.Scope().Match(expr.D("_id", g.core.codec.Condition(id)))
}

// A core does the work of Grids on BSON.
type core struct {
	Options
	coll  *scoped.Collection
	codec codec.Codec

	available, held any                          // expressions of prepare
	holder          func(by bson.RawValue) error // refuses one that is no H
}

// path returns the path of a cell in the grid.
func (c *core) path(cell Cell) (string, error) {
	if c.Flat != (cell.Section == "") {
		return "", fault.Invalid("cell %s: a cell needs a section, or Options.Flat and no section", cell)
	}
	err := fieldpath.CheckName("cell", cell.Name)
	if !c.Flat {
		err = cmp.Or(err, fieldpath.CheckName("cell", cell.Section))
	}
	switch {
	case err != nil:
		return "", fault.Invalid("%w", err)
	case c.Flat:
		return c.CellsField + "." + cell.Name, nil
	}
	return c.CellsField + "." + cell.Section + "." + cell.Name, nil
}

func (c *core) create(ctx context.Context, id, fields any, cells []Cell) error {
	key, err := c.id(id)
	if err != nil {
		return err
	}
	grid := expr.D("_id", key)
	if fields != nil {
		raw, err := c.codec.Document(fields)
		if err != nil {
			return err
		}
		elements, err := raw.Elements()
		if err != nil {
			return fault.Invalid("fields: %w", err)
		}
		for _, e := range elements {
			if e.Key() == "_id" || e.Key() == strings.Split(c.CellsField, ".")[0] {
				return fault.Invalid("fields: the grid sets the field %q itself", e.Key())
			}
			grid = append(grid, expr.Element(e.Key(), e.Value()))
		}
	}
	if len(cells) == 0 {
		return fault.Invalid("cells: the list is empty, as from a Row of 0 or from DayCells that end before they begin")
	}
	made, err := c.empty(cells)
	if err != nil {
		return err
	}
	steps := strings.Split(c.CellsField, ".")
	var nested any = made
	for i := len(steps) - 1; i > 0; i-- {
		nested = expr.D(steps[i], nested)
	}
	if err := collation.Refuse(ctx, c.coll); err != nil {
		return err
	}
	_, err = fault.One(c.coll.InsertOne(ctx, append(grid, expr.Element(steps[0], nested))))
	return fault.Taken("_id", key, err)
}

// empty returns the document of free cells; sections are in the order of their first cells.
func (c *core) empty(cells []Cell) (bson.D, error) {
	out := bson.D{}
	sections := map[string]int{} // the place in out
	seen := map[Cell]bool{}
	for _, cell := range cells {
		if _, err := c.path(cell); err != nil {
			return nil, err
		}
		if seen[cell] {
			return nil, fault.Invalid("cell %s is given twice", cell)
		}
		seen[cell] = true
		free := expr.Element(cell.Name, bson.D{})
		if c.Flat {
			out = append(out, free)
			continue
		}
		at, ok := sections[cell.Section]
		if !ok {
			at = len(out)
			sections[cell.Section] = at
			out = append(out, expr.Element(cell.Section, bson.D{}))
		}
		out[at].Value = append(out[at].Value.(bson.D), free)
	}
	return out, nil
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }

// of adds to an error the grid that it is about.
func (c *core) of(id any, err error) error {
	key, _ := c.id(id) // it was encoded before
	return fault.Of(key, err)
}

// hold holds cells; those that the holder has claimed stay claimed.
func (c *core) hold(ctx context.Context, id, holder any, ttl time.Duration, cells []Cell) error {
	if ttl < time.Millisecond {
		return fault.Invalid("ttl: %v is less than a millisecond", ttl)
	}
	by, err := c.named(holder)
	if err != nil {
		return err
	}
	return c.change(ctx, id, by, cells, func(paths []string, _, literal any) any {
		set := make(bson.D, len(paths))
		for i, path := range paths {
			set[i] = expr.Element(path, at(path, literal, c.held, expr.Element("ms", ttl.Milliseconds())))
		}
		return mongo.Pipeline{expr.Op("$set", set)}
	})
}

// encoded encodes a holder, and refuses what means nobody in a cell, and an array.
func (c *core) encoded(holder any) (by bson.RawValue, err error) {
	if by, err = c.codec.Compared(holder); err != nil {
		return by, err
	}
	if nobody(by) || by.Type == bson.TypeArray {
		return by, fault.Invalid("holder: it is null, undefined or an array")
	}
	return by, nil
}

// named is encoded, and refuses an empty string: requests without an ID would share their cells.
func (c *core) named(holder any) (by bson.RawValue, err error) {
	if by, err = c.encoded(holder); err != nil {
		return by, err
	}
	if text, ok := by.StringValueOK(); ok && text == "" {
		return by, fault.Invalid("holder: it is an empty string")
	}
	return by, nil
}

func (c *core) claim(ctx context.Context, id, holder any, cells []Cell) error {
	by, err := c.named(holder)
	if err != nil {
		return err
	}
	return c.change(ctx, id, by, cells, func(paths []string, holder, _ any) any {
		set, unset := make(bson.D, len(paths)), make(bson.D, len(paths))
		for i, path := range paths {
			set[i] = expr.Element(path+"."+c.HolderField, holder)
			unset[i] = expr.Element(path+"."+c.UntilField, "")
		}
		return expr.D("$set", set, "$unset", unset)
	})
}

func (c *core) release(ctx context.Context, id, holder any, cells []Cell) error {
	by, err := c.encoded(holder)
	if err != nil {
		return err
	}
	return c.change(ctx, id, by, cells, func(paths []string, _, _ any) any {
		unset := make(bson.D, 0, 2*len(paths))
		for _, path := range paths {
			unset = append(unset, expr.Element(path+"."+c.HolderField, ""), expr.Element(path+"."+c.UntilField, ""))
		}
		return expr.Op("$unset", unset)
	})
}

// prepare encodes two expressions that all writes send. In them $$cell is a cell, $$by the holder
// and $$ms the length of a hold. available: the cell exists, and is free, or its hold has ended, or
// it is the holder's. held: the cell after it is held. Both are expressions, as a path in a filter
// would also match element 1 of an array.
func (c *core) prepare() {
	by, until := "$$cell."+c.HolderField, "$$cell."+c.UntilField
	free, dated := expr.Op("$eq", expr.IfNull(by, nil), nil), expr.IsType(until, "date")
	over := expr.Op("$and", dated, expr.Op("$lte", until, "$$NOW"))
	c.available = expr.Fixed(expr.Op("$and", expr.IsType("$$cell", "object"), expr.Op("$or", free, expr.Op("$eq", by, "$$by"), over)))
	end := expr.D(c.UntilField, expr.Op("$add", "$$NOW", "$$ms"))
	c.held = expr.Fixed(expr.Op("$mergeObjects", "$$cell", expr.Cond(expr.Op("$or", free, dated), end, bson.D{}),
		expr.D(c.HolderField, "$$by")))
}

// at returns an expression of prepare for one cell, and the holder as a literal.
func at(path string, literal, in any, more ...bson.E) bson.D {
	vars := append(expr.D("cell", "$"+path, "by", literal), more...)
	return expr.Op("$let", expr.D("vars", vars, "in", in))
}

// change is the single write of Hold, Claim and Release. All conditions are in its filter, so it
// changes all cells or none.
func (c *core) change(ctx context.Context, id any, by bson.RawValue, cells []Cell, update func(paths []string, holder, literal any) any) error {
	key, err := c.id(id)
	if err != nil {
		return err
	}
	if len(cells) == 0 {
		return fault.Invalid("cells: the list is empty")
	}
	holder := any(by)
	literal := any(expr.Op("$literal", holder))
	paths, available := make([]string, len(cells)), make([]any, len(cells))
	for i, cell := range cells {
		if paths[i], err = c.path(cell); err != nil {
			return err
		}
		if slices.Contains(cells[:i], cell) {
			return fault.Invalid("cell %s is given twice", cell)
		}
		available[i] = at(paths[i], literal, c.available)
	}
	filter := expr.D("_id", value.Equal(key), "$expr", expr.And(available...))
	for {
		result, err := fault.One(c.coll.UpdateOne(ctx, filter, update(paths, holder, literal)))
		if err != nil || result.MatchedCount == 1 {
			return fault.Of(key, err)
		}
		if err := c.refusal(ctx, key, by, cells); err != nil {
			return err
		}
		// The cells have become free since: try again.
	}
}

// nobody reports whether a value means that a cell has no holder, as the server's $ifNull decides.
func nobody(by bson.RawValue) bool {
	return by.Type == 0 || by.Type == bson.TypeNull || by.Type == bson.TypeUndefined
}

// free reports whether a cell has no holder, or its hold has ended.
func free(by, until bson.RawValue, now time.Time) bool {
	end, held := until.TimeOK()
	return nobody(by) || held && !end.After(now)
}

// refusal returns the reason why cells could not be taken, nil if they are free now.
func (c *core) refusal(ctx context.Context, id, by bson.RawValue, cells []Cell) error {
	all, err := c.read(ctx, cursor.Primary(c.coll), id)
	if err != nil {
		return err
	}
	states := map[Cell]state{}
	for _, s := range all {
		states[s.cell] = s
	}
	var taken TakenError
	for _, cell := range cells {
		s, ok := states[cell]
		if !ok {
			return fault.Of(id, fmt.Errorf("%w: %s", ErrNoCell, cell))
		}
		if !s.free && !value.Same(s.fields.Lookup(c.HolderField), by) {
			taken.Cells = append(taken.Cells, cell)
		}
	}
	if len(taken.Cells) == 0 {
		return nil
	}
	return fault.Of(id, &taken)
}

// A state is a stored cell.
type state struct {
	cell   Cell
	free   bool
	fields bson.Raw
}

// read returns the cells of a grid, read from coll. Whether they are free is decided by the server's clock.
func (c *core) read(ctx context.Context, coll *scoped.Collection, id any) ([]state, error) {
	key, err := c.id(id)
	if err != nil {
		return nil, err
	}
	raw, err := coll.FindOne(ctx, expr.D("_id", value.Equal(key)), options.FindOne().SetProjection(expr.D(
		"_id", 0, "cells", expr.Field(c.CellsField), "now", "$$NOW",
	))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, fault.Of(key, mongopatterns.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	now := raw.Lookup("now").Time()
	if c.Flat {
		return c.section(nil, "", raw.Lookup("cells"), now), nil
	}
	var out []state
	sections, ok := raw.Lookup("cells").DocumentOK()
	if !ok {
		return nil, nil
	}
	elements, err := sections.Elements()
	for _, e := range elements {
		out = c.section(out, e.Key(), e.Value(), now)
	}
	return out, err
}

// section appends the cells of a section to out.
func (c *core) section(out []state, name string, cells bson.RawValue, now time.Time) []state {
	doc, _ := cells.DocumentOK()
	elements, _ := doc.Elements()
	out = slices.Grow(out, len(elements))
	for _, e := range elements {
		fields, ok := e.Value().DocumentOK()
		if !ok {
			continue
		}
		by, until := fields.Lookup(c.HolderField), fields.Lookup(c.UntilField)
		out = append(out, state{Cell{name, e.Key()}, free(by, until, now), fields})
	}
	return out
}

func (c *core) counts(ctx context.Context, id any) ([]Count, error) {
	key, err := c.id(id)
	if err != nil {
		return nil, err
	}
	pipeline := append(mongo.Pipeline{expr.Op("$match", expr.D("_id", value.Equal(key)))}, c.countsPipeline()...)
	pipeline = append(pipeline, expr.Op("$project", expr.D("sections", 1)))
	type grid struct{ Sections []Count }
	grids, err := cursor.Collect(cursor.Decode[grid](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, pipeline)
	}))
	if err != nil {
		return nil, err
	}
	if len(grids) == 0 {
		return nil, fault.Of(key, mongopatterns.ErrNotFound)
	}
	return grids[0].Sections, nil
}

// entries returns an expression for the fields of a document, empty for any other value.
func entries(v any) bson.D {
	return expr.Cond(expr.IsType(v, "object"), expr.Op("$objectToArray", v), bson.A{})
}

func (c *core) countsPipeline() mongo.Pipeline {
	// number counts the cells of $$section.v that satisfy a condition on $$cell.v.
	number := func(cond any) any {
		cells := expr.Filter(entries("$$section.v"), "cell", expr.Op("$and", expr.IsType("$$cell.v", "object"), cond))
		return expr.Op("$size", cells)
	}
	by, until := "$$cell.v."+c.HolderField, "$$cell.v."+c.UntilField
	taken := expr.Op("$ne", expr.IfNull(by, nil), nil)
	dated := expr.IsType(until, "date")
	over := expr.Op("$and", dated, expr.Op("$lte", until, "$$NOW"))
	sections := any(entries(expr.Field(c.CellsField)))
	if c.Flat {
		sections = bson.A{expr.D("k", expr.Literal(""), "v", expr.Field(c.CellsField))}
	}
	return mongo.Pipeline{expr.Op("$set", expr.D("sections", expr.Map(sections, "section", expr.D(
		"section", "$$section.k",
		"free", number(expr.Op("$or", expr.Op("$not", taken), over)),
		"held", number(expr.Op("$and", taken, dated, expr.Op("$not", over))),
		"claimed", number(expr.Op("$and", taken, expr.Op("$not", dated))),
	))))}
}
