/** Random values of a JSON Schema: mostly valid, sometimes at a limit, sometimes invalid. */
import fc, { type Arbitrary } from 'fast-check'
import { type JsonSchema, resolved } from '../contract/document.ts'

const NASTY: readonly string[] = [
  '',
  ' ',
  '\0',
  '\ud800',
  '\u001f\r\n\t',
  '\u202egnp.exe',
  '__proto__',
  'constructor',
  'null',
  '0',
  '-1',
  '1e309',
  '9007199254740993',
  'NaN',
  'true',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
  '2026-02-30',
  '../../etc/passwd',
  'a/b',
  '%2e%2e%2f',
  "'; drop table tenants; --",
  '{{7*7}}<script>',
  '🏴󠁧󠁢󠁥󠁮󠁧󠁿e\u0301',
  'İ.example',
  'x'.repeat(3_000),
]

const NUMBERS_MAX = 1_000_000
const TEXT_MAX = 30
const ITEMS_MAX = 3

const text = fc.string({ unit: 'grapheme', maxLength: TEXT_MAX })

export const nasty = fc.oneof(fc.constantFrom(...NASTY), fc.string({ unit: 'binary' }), text)

export const anything = fc.oneof(
  nasty,
  fc.jsonValue({ stringUnit: 'binary' }),
  fc.constantFrom(0, -1, 1.5, 2 ** 53, null, true, [], {}),
)

/** Valid so often that a request with ten members is usually valid. */
export const mostly = <T>(right: Arbitrary<T>, ...odd: readonly Arbitrary<T>[]): Arbitrary<T> =>
  fc.oneof({ weight: 50, arbitrary: right }, ...odd.map((arbitrary) => ({ weight: 1, arbitrary })))

/** Plausible values by name of a parameter or member, where the schema does not define them. */
export type Likely = Readonly<Record<string, readonly string[]>>

/** @param name name of the member or parameter */
export function valueFor(given: JsonSchema, likely: Likely, name = ''): Arbitrary<unknown> {
  const schema = resolved(given)
  const legal = legalFor(schema, likely, name)
  const guesses = schema.type === 'string' ? likely[name] : undefined
  if (guesses) return mostly<unknown>(fc.constantFrom(...guesses), legal, borderlineFor(schema), anything)
  return schema.type === 'string' || schema.type === 'integer' || schema.type === 'number'
    ? mostly<unknown>(legal, borderlineFor(schema), anything)
    : mostly<unknown>(legal, anything)
}

function legalFor(schema: JsonSchema, likely: Likely, name: string): Arbitrary<unknown> {
  const { type, minimum = -NUMBERS_MAX, maximum = NUMBERS_MAX, minItems = 0, maxItems = ITEMS_MAX } = schema
  const choices: readonly JsonSchema[] | undefined =
    schema.anyOf ?? schema.oneOf ?? (Array.isArray(type) ? type.map((one) => ({ ...schema, type: one })) : undefined)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (choices) return fc.oneof(...choices.map((choice) => valueFor(choice, likely, name)))
  if (type === 'null') return fc.constant(null)
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer') {
    return fc.integer({ min: Math.max(minimum, -NUMBERS_MAX), max: Math.min(maximum, NUMBERS_MAX) })
  }
  if (type === 'number') return fc.double({ min: minimum, max: maximum, noNaN: true })
  if (type === 'array') {
    return fc.uniqueArray(valueFor(schema.items ?? {}, likely, name), {
      minLength: minItems,
      maxLength: Math.max(minItems, Math.min(maxItems, ITEMS_MAX)),
      selector: JSON.stringify,
    })
  }
  if (type === 'object') return objectFor(schema, likely)
  return type === 'string' ? textFor(schema) : fc.jsonValue({ stringUnit: 'grapheme' })
}

function textFor({ example, format, pattern, minLength = 0, maxLength = TEXT_MAX }: JsonSchema): Arbitrary<string> {
  if (example !== undefined) return fc.constant(example)
  const known = FORMATS[format]
  if (known) return known
  // `stringMatching` does not support lookaround; such a pattern gets any text.
  if (pattern !== undefined && !pattern.includes('(?')) return fc.stringMatching(new RegExp(pattern))
  return fc.string({ unit: 'grapheme', minLength, maxLength: Math.max(minLength, Math.min(maxLength, TEXT_MAX)) })
}

const moment = fc
  .date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true })
  .map((date) => date.toISOString())

const FORMATS: Readonly<Record<string, Arbitrary<string>>> = {
  'date-time': moment,
  date: moment.map((text) => text.slice(0, 10)),
  uuid: fc.uuid(),
  uri: fc.webUrl({ validSchemes: ['https'] }),
  email: fc.constantFrom('help@acme.example', 'a+b@sub.example.org'),
}

function objectFor(schema: JsonSchema, likely: Likely): Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties } = schema
  const own = Object.keys(properties).map((name) => [name, valueFor(properties[name], likely, name)])
  const known = fc.record(Object.fromEntries(own), { requiredKeys: required, noNullPrototype: true })
  const strange = fc.dictionary(nasty, anything, { maxKeys: 2, noNullPrototype: true })
  const more = additionalProperties === false ? mostly(fc.constant({}), strange) : freeMembers(likely)
  // Not a spread: a member named __proto__ must remain a member.
  return fc.tuple(known, more).map((parts) => Object.fromEntries(parts.flatMap((part) => Object.entries(part))))
}

/** Members of an object that accepts any: known names and others. */
const freeMembers = (likely: Likely): Arbitrary<object> =>
  fc
    .tuple(
      fc.record(
        Object.fromEntries(Object.entries(likely).map(([name, guesses]) => [name, fc.constantFrom(...guesses)])),
        { requiredKeys: [], noNullPrototype: true },
      ),
      fc.dictionary(mostly(text, nasty), mostly<unknown>(fc.jsonValue({ stringUnit: 'grapheme' }), anything), {
        maxKeys: 3,
        noNullPrototype: true,
      }),
    )
    .map((parts) => Object.fromEntries(parts.flatMap((part) => Object.entries(part))))

/** At a limit of the schema, or beyond it by one. */
function borderlineFor(schema: JsonSchema): Arbitrary<unknown> {
  const { type, minLength = 0, maxLength = 1_000, minimum = 0, maximum = 2 ** 53 } = schema
  if (type !== 'string') {
    return fc.constantFrom(minimum, minimum - 1, maximum, maximum + 1, minimum + 0.5, String(minimum))
  }
  const lengths = [minLength, minLength - 1, maxLength, maxLength + 1].filter((length) => length >= 0)
  return fc.constantFrom(...lengths).chain((length) => fc.constantFrom('a'.repeat(length), 'ä'.repeat(length)))
}
