package store

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Key spaces: the first byte of every key.
const (
	spaceMeta      = 'm'
	spaceRow       = 'r' // table, key
	spaceIndex     = 'i' // table, index, values…, key
	spacePosting   = 'p' // term, table, partition, first ordinal
	spacePartition = 'q' // table, partition: how many documents, and how long
	spaceOrdinal   = 'o' // table, key: ordinal and partition of an indexed row
	spaceDocument  = 'd' // ordinal: table and key
	spaceJournal   = 'j' // sequence
	spaceHistory   = 'k' // table, key, sequence
	spaceByActor   = 'l' // connection, sequence
	spaceTally     = 'n' // table, tally, value, partition: how many rows
)

// Tuple is a list of values that index keys are made of, in order. Values are
// string, int64, int, bool and time.Time.
type Tuple []any

// append encodes the values so that byte order is value order, and no value is
// a prefix of another's encoding.
func (t Tuple) append(b []byte) []byte {
	for _, v := range t {
		switch v := v.(type) {
		case string:
			b = appendString(b, v)
		case int64:
			b = appendInt(b, v)
		case int:
			b = appendInt(b, int64(v))
		case time.Time:
			b = appendInt(b, v.UnixNano())
		case bool:
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		default:
			panic(fmt.Sprintf("store: an index value can't be a %T", v))
		}
	}
	return b
}

// appendString writes s with 0x00 as 0x00 0xFF and ends it with 0x00 0x01.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] == 0 {
			b = append(b, 0xFF)
		}
	}
	return append(b, 0, 1)
}

// cutString undoes appendString. ok is false when b does not begin with one.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		switch b[i+1] {
		case 1:
			return string(out), b[i+2:], true
		case 0xFF:
			out = append(out, 0)
			i++
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

func appendInt(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(v)^1<<63)
}

func metaKey(name string) []byte { return append([]byte{spaceMeta}, name...) }

func tablePrefix(space byte, table uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{space}, table)
}

func rowKey(table uint16, key string) []byte {
	return append(tablePrefix(spaceRow, table), key...)
}

func indexPrefix(table uint16, index int) []byte {
	return append(tablePrefix(spaceIndex, table), byte(index))
}

// splitIndex is added to the number of an index that is split by partition.
const splitIndex = 128

func splitPrefix(table uint16, index int, partition string) []byte {
	return appendString(indexPrefix(table, splitIndex+index), partition)
}

func ordinalKey(table uint16, key string) []byte {
	return append(tablePrefix(spaceOrdinal, table), key...)
}

func documentKey(ord uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceDocument}, ord)
}

func partitionKey(table uint16, partition string) []byte {
	return append(tablePrefix(spacePartition, table), partition...)
}

// postingPrefix is all blocks of a term in a table, or in one of its partitions.
func postingPrefix(term string, table uint16, partition *string) []byte {
	b := appendString([]byte{spacePosting}, term)
	b = binary.BigEndian.AppendUint16(b, table)
	if partition != nil {
		b = appendString(b, *partition)
	}
	return b
}

func journalKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceJournal}, seq)
}

func historyPrefix(table uint16, key string) []byte {
	return appendString(tablePrefix(spaceHistory, table), key)
}

func byActorPrefix(connection string) []byte {
	return appendString([]byte{spaceByActor}, connection)
}

// after is the first key that does not begin with prefix; nil is the end.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xFF {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
