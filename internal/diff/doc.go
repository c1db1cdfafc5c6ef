// Package diff compares BSON documents, and applies the differences between two documents to a
// third. It works on bytes: it uses neither a server nor Go types of documents.
//
// # Documents
//
// [Open] returns the fields of a document; [Raw] makes the same document of them again, to the
// byte. No value is converted: 1, 1.0 and int64(1) are three values, and each stays as it is. The
// order of fields counts inside a document; at the top only [Delta] keeps it. A document with a
// duplicate field, an array with wrong keys and invalid bytes are compared and merged as one value.
//
// # Differences
//
// [Changes] returns the top-level fields that have to change to make one document of another, and
// [Patch] applies them. [Diff] lists the differences at any depth, for people. [Delta] returns a
// document that describes the whole change to the byte, and is small if the two are alike; [Apply]
// applies it.
//
// # Merge
//
// [Merge] takes three documents, named as in version control: base, from which both sides started,
// theirs, and ours. It returns theirs with the changes from base to ours:
//
//   - A value that is equal in ours and base is taken from theirs, or removed if theirs does not
//     have it. Fields of theirs that base does not have are kept, at any depth, because base and
//     ours may be views that do not show everything.
//   - A value that is equal in theirs and base is taken from ours.
//   - If both have changed a document, it is merged inside. If both have changed any other value,
//     it is taken from ours, and its path is a clash.
//   - The order of fields at the top is that of theirs. Inside documents it is that of ours, and a
//     field that only theirs has follows the same field as in theirs. New fields come last.
//   - An array is one value, or its elements are merged: see [Arrays]. An element that both have
//     inserted alike is inserted once.
//
// If theirs equals base or ours, the result has the fields of ours. If ours equals base, the result
// is theirs.
//
// An element of an array is matched with an element of another array if the two are equal, wherever
// they are; otherwise if both have a value of a field that no other element has, those with most
// such values first; otherwise if they have the same neighbours. So an element that is moved or
// edited keeps the fields that base does not show.
//
// All of this takes time in proportion to the size of the documents, not to its square.
package diff
