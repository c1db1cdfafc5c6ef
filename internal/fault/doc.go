// Package fault makes the library's errors, with the prefix that says which call failed, and answers questions about
// errors.
//
// A call of the library records in its errors what is done (outcome.go): One, Many and Single do it for a write, and
// Unknown, NotDone and PartlyDone for a call. fault.go has the sentinels and the texts, size.go documents that are too
// large, and codes.go what the server's codes mean.
//
// The questions:
//
//	question           yes for                                               asked by
//	WroteNothing       a call of the library that has written nothing        OutcomeOf
//	MayHaveWritten     a call of the library that may have written           maintain, windows, tree, outlier: to count as Unknown
//	FromLibrary        an error made here                                    codec: to leave it as it is
//	Refused            a document that no repetition stores                  loops: to name it, and go on with the others
//	Temporary          what passes without anybody's doing                   extref.Watch: to open the stream again
//	ServerDidNothing   an answer: one write, commit or abort is not done     One, Many; txn: is the transaction over?
//	CommitUncertain    a commit that may be done or not                      txn: to send it again
//	NoConnection       a command for which there was no connection           txn: to try again
//	Forbidden          a right that the user lacks                           In: to name the page; txn: another fence
//	UpdateTooLarge     an update that would make more than 16 MiB            windows: to begin another document
//	HasCode            answers with these codes                              all, for a code of their own
//	notWritten         one write that is not done: not sent, or refused      One, Many
//	notSent            what comes before the first attempt                   Many
//
// WroteNothing, MayHaveWritten and FromLibrary look for what was recorded here, and the others at the driver's error.
// Refused is about the document, and ServerDidNothing about one attempt: after a write conflict the server has done
// nothing, but the document is not refused for good. After an election neither is certain.
package fault
