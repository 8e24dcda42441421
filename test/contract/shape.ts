/**
 * Normalizes output of commands: replaces ids, times, hashes, tokens, addresses and amounts that depend on the machine.
 * Equal items of a list are then merged, because their number is not part of the shape.
 */
import { hostname } from 'node:os'

const TEXTS: readonly [RegExp, string][] = [
  [new RegExp(`\\b${hostname().replaceAll('.', '\\.')}:\\d+\\b`, 'g'), '<process>'],
  [/\bwhsec_[A-Za-z0-9+/]+=*/g, '<secret>'],
  [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>'],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/\b[0-9a-f]{64}\b/g, '<hash>'],
  [/\b(127\.0\.0\.1|localhost):\d+/g, '$1:<port>'],
  [/\bcode=[\w-]+/g, 'code=<code>'],
  [/\b\d+(\.\d+)? (ms|s)\b/g, '<duration>'],
  [/(\/[\w.-]+)*\/tenantry-[\w-]+/g, '<path>'],
  [/\btenantry_tenant(_[0-9a-f]{8})?\b/g, '<login>'],
  [/\b(evt|cus|sub|cs|bps)_(test_)?[0-9a-f]{8,}\b/g, '<$1>'],
]

/** By name of the member, for any value. */
const MEMBERS: Readonly<Record<string, string>> = {
  token: '<token>',
  script: '<script>',
  version: '<version>',
  migrated: '<migrations>',
  queues: '<queues>',
  durationMs: '<milliseconds>',
  uptimeSeconds: '<seconds>',
  remainingSeconds: '<seconds>',
  bytes: '<bytes>',
  sizeBytes: '<bytes>',
  checked: '<count>',
  nextCursor: '<cursor>',
  period: '<day>',
  estimate: '<estimate>',
  transfers: '<count>',
  places: '<count>',
  purges: '<count>',
  sums: '<count>',
  written: '<count>',
  trimmed: '<count>',
}

/** Members with counts, which include other cases. */
const COUNTS = ['events', 'taken', 'sent', 'count', 'tenants', 'used']

export function shapeOf(value: unknown): unknown {
  if (typeof value === 'string') return textShape(value)
  if (Array.isArray(value)) return distinct(value.map(shapeOf))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [textShape(name), maskOf(name, one) ?? shapeOf(one)]),
  )
}

const maskOf = (name: string, value: unknown): string | undefined =>
  COUNTS.includes(name) && typeof value === 'number' ? '<count>' : MEMBERS[name]

/** For text output: columns are separated by two blanks, because their width depends on the content. */
export const pageShape = (text: string): string =>
  `${distinct(
    textShape(text)
      .trimEnd()
      .split('\n')
      .map((line) => line.replaceAll(/(?<=\S) {2,}/g, '  ')),
  ).join('\n')}\n`

const textShape = (text: string): string =>
  TEXTS.reduce((shape, [volatile, placeholder]) => shape.replaceAll(volatile, placeholder), text)

const distinct = <Item>(items: readonly Item[]): Item[] => [
  ...new Map(items.map((item) => [JSON.stringify(item), item])).values(),
]
