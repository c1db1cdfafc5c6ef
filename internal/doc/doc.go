// Package doc says how BSON documents differ and carries differences from one to another.
// It works on bytes: it knows no server and no Go types.
//
// # Documents
//
// [Open] takes a document apart into its fields, [Raw] puts it together again, to the byte.
// A value is never converted: 1, 1.0 and int64(1) are three values, and each comes back
// as it went in. The order of fields counts, but at the top, where it does only for
// [Delta]. What has a field twice, or bytes that are no document, is one value and is
// not looked into.
//
// # Differences
//
// [Changes] are the top-level fields that make one document of another, [Patch] applies
// them. [Diff] lists what differs at any depth, for people. [Delta] is a document that
// makes one of the other to the byte, and small where they are alike; [Apply] does it.
//
// # Merge
//
// [Merge] has three documents, called as in version control: base, which both sides
// began with, theirs, and ours. It returns theirs with what ours has changed:
//
//   - A value that ours has as base has it is as in theirs, removed if it is not there. What
//     base lacks of it, theirs keeps, at any depth: base and ours may be views that do
//     not show everything.
//   - A value that theirs has as base has it is as in ours.
//   - Where both have changed a document, it is merged inside. Where both have changed
//     anything else, it is as in ours, and its path is a clash.
//   - The order at the top is that of theirs. Inside, it is that of ours, and a field that
//     only theirs has stands behind the one that it follows there. New ones come last.
//   - An array is one value, or its elements are merged: see [Arrays]. An element that both
//     have inserted alike is inserted once.
//
// With base as theirs, or ours as theirs, the result has what ours has; with ours as
// base it is theirs.
//
// An element of an array is the same as one of another array if it is equal to it,
// wherever that is; else if both have a value of a field that no other element has,
// those with most of these first; else if it stands between the same neighbours. So an
// element keeps what base does not show of it when it is moved or edited.
//
// All of this takes time in proportion to the documents, not to their square.
package doc
