package prealloc

import (
	"context"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

var _ mongopatterns.Checker = (*Grids[int, int])(nil)

// Check yields the cells, sections and grids that other programs have damaged so that no call can
// free or take them. Work.Filter selects grids.
//
// It yields these kinds of package mongopatterns:
//   - Malformed: the cells, a section or a cell is not a document, a holder is an array or no H, so that no call
//     can name it, or the end of a hold is not a date, so that the hold never ends. Field is the path, and Detail
//     the reason. Calls treat a cell that is not a document as missing. Correct it by hand, because no call of
//     the package changes it.
//
// Cost: 1 round trip, and 1 for each batch of 100 grids, index _id.
func (g *Grids[ID, H]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "prealloc.Check")
	c := &g.core
	scan := maintain.Scan{Projection: expr.D(c.CellsField, 1, "~now", "$$NOW"), BatchSize: 100}
	found := maintain.Check(ctx, c.coll, work, scan, func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, err error) {
		for _, grid := range batch {
			found := c.malformed(grid)
			for i := range found {
				found[i].Pattern, found[i].Kind, found[i].Collection, found[i].ID = "prealloc", mongopatterns.Malformed, c.coll.Name(), grid.Lookup("_id")
			}
			all = append(all, found...)
		}
		return all, nil
	})
	return fault.Seq("prealloc.Check", collation.Seq(ctx, found, c.coll))
}

func malformed(path string, have bson.RawValue, detail string) []mongopatterns.Problem {
	return []mongopatterns.Problem{{Field: path, Have: have, Detail: detail}}
}

// malformed returns the problems of a grid.
func (c *core) malformed(grid bson.Raw) (out []mongopatterns.Problem) {
	cells, now := value.Lookup(grid, c.CellsField), grid.Lookup("~now").Time()
	if cells.Type != bson.TypeEmbeddedDocument {
		return malformed(c.CellsField, cells, "the grid has no document of cells")
	}
	if c.Flat {
		return c.malformedCells(c.CellsField, cells, now)
	}
	sections, _ := cells.Document().Elements()
	for _, section := range sections {
		path := c.CellsField + "." + section.Key()
		if section.Value().Type != bson.TypeEmbeddedDocument {
			out = append(out, malformed(path, section.Value(), "a section is not a document")...)
			continue
		}
		out = append(out, c.malformedCells(path, section.Value(), now)...)
	}
	return out
}

// sectioned reports whether a document is a section: all its fields are documents.
func sectioned(fields bson.Raw) bool {
	elements, _ := fields.Elements()
	for _, e := range elements {
		if e.Value().Type != bson.TypeEmbeddedDocument {
			return false
		}
	}
	return len(elements) > 0
}

// malformedCells returns the problems of the cells of a section at a path.
func (c *core) malformedCells(path string, section bson.RawValue, now time.Time) (out []mongopatterns.Problem) {
	cells, _ := section.Document().Elements()
	for _, cell := range cells {
		path := path + "." + cell.Key()
		fields, ok := cell.Value().DocumentOK()
		if !ok {
			out = append(out, malformed(path, cell.Value(), "a cell is not a document")...)
			continue
		}
		if c.Flat && sectioned(fields) {
			out = append(out, malformed(path, cell.Value(), "a section, where Options.Flat says that there are none")...)
			continue
		}
		by, until := fields.Lookup(c.HolderField), fields.Lookup(c.UntilField)
		switch {
		case free(by, until, now):
		case by.Type == bson.TypeArray:
			out = append(out, malformed(path+"."+c.HolderField, by, "a holder is an array")...)
		case until.Type != 0 && until.Type != bson.TypeNull && until.Type != bson.TypeDateTime:
			out = append(out, malformed(path+"."+c.UntilField, until, "the end of a hold is not a date: it never ends")...)
		case c.holder(by) != nil:
			out = append(out, malformed(path+"."+c.HolderField, by, "a holder is of another type, and no call can name it")...)
		}
	}
	return out
}
