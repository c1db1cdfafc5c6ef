// Package mongopatterns is the index of a library of building blocks for the
// schema patterns of MongoDB. It has no API of its own; each pattern is a
// package:
//
//   - [github.com/mongopatterns/mongopatterns/tree]: hierarchies in five
//     representations
//   - [github.com/mongopatterns/mongopatterns/paging]: keyset and numbered pages
//   - [github.com/mongopatterns/mongopatterns/bucket]: time series in buckets
//   - [github.com/mongopatterns/mongopatterns/attribute]: many similar fields
//     as key and value under one index
//   - [github.com/mongopatterns/mongopatterns/outlier]: lists that overflow into
//     further documents
//   - [github.com/mongopatterns/mongopatterns/subset]: the best N of a
//     one-to-many inside the parent; hot and cold fields split
//   - [github.com/mongopatterns/mongopatterns/extref]: copied fields of
//     referenced documents, kept right
//   - [github.com/mongopatterns/mongopatterns/versioning]: documents with their
//     revisions
//   - [github.com/mongopatterns/mongopatterns/mongotest]: a real server for
//     integration tests, the commands that code sends, and their plans
//
// A pattern's helper is made from a *mongo.Collection and is used beside the
// driver, not in place of it: every read is also to be had as a filter or a
// pipeline, field names are configurable, and nothing happens that was not
// asked for. The documentation of each package is its manual.
package mongopatterns
