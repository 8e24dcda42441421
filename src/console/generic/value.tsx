/** Values of unknown form, as text. */
import type { ReactNode } from 'react'
import { Code, Json } from '../components/base/code.tsx'
import { Facts } from '../components/base/page.tsx'
import { Time } from '../components/base/time.tsx'
import { textOf } from '../components/base/value-text.ts'
import { isTime, membersOf } from './members.ts'
import { text } from './text.ts'

/** On one line. */
export function Inline({ value }: { value: unknown }): ReactNode {
  if (value === null || value === undefined || value === '') return <span className="faint">–</span>
  if (typeof value === 'boolean') return value ? text.yes : text.no
  if (isTime(value)) return <Time at={value} />
  if (typeof value === 'object') return <code className="long-word">{textOf(value)}</code>
  return <span className="long-word">{textOf(value)}</span>
}

/** Members as facts; objects and arrays as JSON, long texts in a region that scrolls. */
export function Value({ value }: { value: unknown }): ReactNode {
  const members = membersOf(value)
  if (!members) return <Json value={value} />
  const inline = members.filter(({ isInline }) => isInline)
  return (
    <div className="members">
      <Facts
        facts={Object.fromEntries(inline.map((one) => [one.label, <Inline key={one.name} value={one.value} />]))}
      />
      {members
        .filter(({ isInline }) => !isInline)
        .map(({ name, label, value: member }) => (
          <div key={name}>
            <h3>{label}</h3>
            {typeof member === 'string' ? <Code label={label}>{member}</Code> : <Json value={member} label={label} />}
          </div>
        ))}
    </div>
  )
}
