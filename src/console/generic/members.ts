/** Members of a value of unknown form: their labels, and which of them fit on one line. */
import { isObject, MAX_LABEL, textOf } from '../components/base/value-text.ts'
import { titleOf } from './pages.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
/** Further members make a page slow; the value is shown as JSON. */
const MAX_MEMBERS = 500

interface Member {
  readonly name: string
  readonly label: string
  readonly value: unknown
  readonly isInline: boolean
}

export const isTime = (value: unknown): value is string =>
  typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value))

/** Undefined: the value is shown as JSON. */
export function membersOf(value: unknown): readonly Member[] | undefined {
  if (!isObject(value)) return undefined
  const entries = Object.entries(value)
  if (entries.length > MAX_MEMBERS) return undefined
  const labelOf = labels(entries.map(([name]) => name))
  return entries.map(([name, member]) => ({
    name,
    label: labelOf(name),
    value: member,
    isInline:
      member === null || (typeof member !== 'object' && !(typeof member === 'string' && member.length > MAX_LABEL)),
  }))
}

/** The title of a name; the name itself if several names have the title. */
function labels(names: readonly string[]): (name: string) => string {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(titleOf(name), (counts.get(titleOf(name)) ?? 0) + 1)
  return (name) => textOf((counts.get(titleOf(name)) ?? 0) > 1 ? name : titleOf(name))
}
