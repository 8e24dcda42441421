import { expect, test } from 'vitest'
import { preferredMediaType } from './media-type.ts'

const JSON_PAGE = 'application/json'
const NDJSON = 'application/x-ndjson'
const CSV = 'text/csv'

test.each([
  [null, JSON_PAGE],
  ['', JSON_PAGE],
  ['*/*', JSON_PAGE],
  ['application/json', JSON_PAGE],
  ['text/csv', CSV],
  ['TEXT/CSV; charset=utf-8', CSV],
  ['application/x-ndjson', NDJSON],
  ['application/*', JSON_PAGE],
  ['text/*', CSV],
  // a browser's navigation
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', JSON_PAGE],
  // of equals, the order of the offer
  ['text/csv, application/json', JSON_PAGE],
  ['text/csv, application/x-ndjson', NDJSON],
  // named goes before covered
  ['text/csv, */*', CSV],
  ['text/csv, */*;q=0.1', CSV],
  ['text/csv;q=0.5, */*', JSON_PAGE],
  ['application/x-ndjson, application/*', NDJSON],
  // quality
  ['application/json;q=0.2, text/csv;q=0.3', CSV],
  ['application/json;q=0.201, text/csv;q=0.2', JSON_PAGE],
  ['text/csv;header=present;q=0.9, application/x-ndjson ; Q=1.000', NDJSON],
  // zero excludes, also from under a wildcard
  ['*/*, application/json;q=0', NDJSON],
  ['application/json;q=0, application/x-ndjson;q=0.0, */*;q=0.001', CSV],
  ['text/csv;q=0', JSON_PAGE],
  // none of ours, or not an Accept header at all
  ['image/png', JSON_PAGE],
  ['csv', JSON_PAGE],
  ['*/csv', JSON_PAGE],
  ['text/csv;q=2', JSON_PAGE],
  ['text/csv;q=high', JSON_PAGE],
  [',,;q=1,/', JSON_PAGE],
])('Accept: %s selects %s', (accept, expected) => {
  expect(preferredMediaType(accept, [JSON_PAGE, NDJSON, CSV])).toBe(expected)
})
