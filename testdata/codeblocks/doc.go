// Package codeblocks has what the code blocks of the pages and manuals use without declaring it: types and
// variables in a file for each page, without imports. TestCodeBlocks in the root reads them.
package codeblocks
