/** What a browser accepts in a field of a form, by the attributes that the field has (HTML, constraint validation). */
import fc from 'fast-check'
import type { FieldRules } from '../../../src/console/api/contract.ts'

/** Fields with one value: others have no constraints in the browser. */
export const isChecked = ({ type }: FieldRules): boolean => type === 'string' || type === 'integer' || type === 'number'

/** Attributes of the field, as `Field` sets them. */
export function attributesOf(rule: FieldRules): Readonly<Record<string, string>> {
  const { type, minLength, maxLength, pattern, minimum, maximum, required } = rule
  const isNumber = type === 'integer' || type === 'number'
  const given = isNumber
    ? { type: 'number', min: minimum, max: maximum, step: type === 'integer' ? 1 : 'any' }
    : { type: 'text', minlength: minLength, maxlength: maxLength, pattern }
  const set = Object.entries({ ...given, required: required ? '' : undefined }).filter(
    ([, value]) => value !== undefined,
  )
  return Object.fromEntries(set.map(([name, value]) => [name, String(value)]))
}

/** A number of HTML: a field of numbers has no other value. */
export const NUMBER = /^-?(\d+|\d*\.\d+)(e[+-]?\d+)?$/i

/** Whether a browser submits the text, which a person has typed. Lengths are in UTF-16 code units. */
export function accepts(rule: FieldRules, text: string): boolean {
  const { type, minLength = 0, maxLength = Infinity, pattern, minimum = -Infinity, maximum = Infinity, required } = rule
  if (rule.enum) return rule.enum.includes(text) || (text === '' && !required)
  if (text === '') return !required
  if (type === 'string') {
    const isMatch = pattern === undefined || new RegExp(`^(?:${pattern})$`, 'v').test(text)
    return isMatch && text.length >= minLength && text.length <= maxLength
  }
  const number = Number(text)
  const isNumber = NUMBER.test(text) && Number.isFinite(number)
  return isNumber && number >= minimum && number <= maximum && (type === 'number' || Number.isInteger(number))
}

/** Texts at the limits of a field, texts that match its pattern, and others. None has spaces at its ends, which the service removes. */
export function textsFor({ type, minLength = 1, maxLength = 50, pattern, minimum, maximum, enum: values }: FieldRules) {
  const limits = [minLength - 1, minLength, maxLength, maxLength + 1].filter((length) => length > 0 && length <= 20_000)
  const numbers = [minimum, maximum].flatMap((limit) =>
    limit === undefined ? [] : [limit - 1, limit, limit + 1, limit + 0.5],
  )
  const texts = fc.oneof(
    fc.constantFrom('a', '0', ...limits.map((length) => 'a'.repeat(length))),
    ...(pattern ? [fc.stringMatching(new RegExp(`^(?:${pattern})$`))] : [fc.string({ maxLength: 20 })]),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
    ...(values ? [fc.constantFrom(...values.map(String))] : []),
    ...(type === 'string' ? [] : [fc.integer().map(String), fc.constantFrom('1', '1.5', '-1', ...numbers.map(String))]),
  )
  return texts.filter((text) => text === text.trim())
}
