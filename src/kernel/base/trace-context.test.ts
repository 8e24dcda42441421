import { expect, test } from 'vitest'
import { parseTraceparent, traceIdsOf, traceparentOf } from './trace-context.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'

test.each([
  [`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`],
  [`00-${TRACE}-${PARENT}-00`, `00-${TRACE}-${PARENT}-00`],
  [`01-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`],
  [`01-${TRACE}-${PARENT}-01-more`, `00-${TRACE}-${PARENT}-01`],
])('parseTraceparent(%j) is %j', (header, expected) => {
  expect(parseTraceparent(header)).toBe(expected)
})

test.each([
  [undefined],
  [''],
  [['00', TRACE]],
  [`00-${TRACE}-${PARENT}`],
  [`00-${TRACE}-${PARENT}-01-more`],
  [`ff-${TRACE}-${PARENT}-01`],
  [`00-${'0'.repeat(32)}-${PARENT}-01`],
  [`00-${TRACE}-${'0'.repeat(16)}-01`],
  [`00-${TRACE.toUpperCase()}-${PARENT}-01`],
  [`00-${TRACE}-${PARENT}-01\n`],
])('parseTraceparent(%j) is undefined', (header) => {
  expect(parseTraceparent(header)).toBeUndefined()
})

test('traceIdsOf is the inverse of traceparentOf', () => {
  const ids = { traceId: TRACE, spanId: PARENT, traceFlags: 1 }
  expect(traceIdsOf(traceparentOf(ids))).toEqual(ids)
})
