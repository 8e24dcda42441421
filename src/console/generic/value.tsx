/** Values of unknown form, as text. */
import type { ReactNode } from 'react'
import { Json } from '../components/base/code.tsx'
import { Facts } from '../components/base/page.tsx'
import { Time } from '../components/base/time.tsx'
import { titleOf } from './pages.ts'
import { text } from './text.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** On one line. */
export function Inline({ value }: { value: unknown }): ReactNode {
  if (value === null || value === undefined || value === '') return <span className="faint">–</span>
  if (typeof value === 'boolean') return value ? text.yes : text.no
  if (typeof value === 'string' && TIME.test(value)) return <Time at={value} />
  if (typeof value === 'object') return <code className="long-word">{JSON.stringify(value)}</code>
  return <span className="long-word">{String(value)}</span>
}

/** Members as facts; what has members itself as JSON. */
export function Value({ value }: { value: unknown }): ReactNode {
  if (!isObject(value)) return <Json value={value} />
  const members = Object.entries(value)
  const plain = members.filter(([, member]) => typeof member !== 'object' || member === null)
  const nested = members.filter(([, member]) => typeof member === 'object' && member !== null)
  const titles = members.map(([name]) => titleOf(name))
  const labelOf = (name: string) =>
    titles.filter((title) => title === titleOf(name)).length > 1 ? name : titleOf(name)
  return (
    <div className="members">
      <Facts
        facts={Object.fromEntries(plain.map(([name, member]) => [labelOf(name), <Inline key={name} value={member} />]))}
      />
      {nested.map(([name, member]) => (
        <div key={name}>
          <h3>{labelOf(name)}</h3>
          <Json value={member} label={labelOf(name)} />
        </div>
      ))}
    </div>
  )
}
