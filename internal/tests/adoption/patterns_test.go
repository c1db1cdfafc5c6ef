//go:build unix

package adoption_test

import "github.com/mongopatterns/mongopatterns/tree"

// patterns are the cases, in the order of the page's sections.
var patterns []pattern

func init() {
	patterns = []pattern{
		{"tree", "tree, ancestor arrays", openTree(tree.AncestorArray, nil), startTree(tree.AncestorArray), treeMoves},
		{"tree", "tree, paths", openTree(tree.MaterializedPath, nil), startTree(tree.MaterializedPath), pathSays},
		{"tree", "tree, child references", openTree(tree.ChildReferences, nil), startTree(tree.ChildReferences), childrenSays},
		{"tree", "tree, nested sets", openTree(tree.NestedSets, nil), startTree(tree.NestedSets), treeMoves},
		{"bucket", "bucket", openBucket(""), startMeasurements, bucketSays},
		{"bucket", "bucket with IDs", openBucket("key"), startMeasurements, nil},
		{"slots", "slots", openSlots, startSlots, slotsSays},
		{"series", "series", openSeries, startMeasurements, seriesSays},
		{"attribute", "attribute", openAttribute, startAttribute, attributeSays},
		{"outlier", "outlier", openOutlier, startOutlier, outlierSays},
		{"subset", "subset", openSubset, startSubset, subsetSays},
		{"split", "split", openSplit, startSplit, splitSays},
		{"extref", "extref", openExtref, startExtref, extrefSays},
		{"extref", "extref with Watch", openExtref, watchedExtref, watchSays},
		{"relation", "relation", openRelation, startRelation, relationSays},
		{"versioning", "versioning", openVersioning, startVersioning, versioningSays},
		{"versioning", "versioning, a history kept by hand", openHistory, startHistory, nil},
		{"schemaversion", "schemaversion", openSchema, startSchema, schemaSays},
		{"schemaversion", "schemaversion, typed steps", openTyped, startTyped, nil},
		{"polymorphic", "polymorphic", openPolymorphic, startPolymorphic, polymorphicSays},
		{"computed", "computed", openComputed, startComputed, computedSays},
		{"archive", "archive", openArchive, startArchive, archiveSays},
	}
}
