/** Differences of two JSON values, one row for each changed member. */
import { text } from './text.ts'
import { MAX_VALUE, shortened } from './value-text.ts'

export interface Difference {
  readonly path: string
  readonly before: unknown
  readonly after: unknown
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Changed members by path, `metadata.plan`. Lists are compared as a whole. */
export function differencesOf(before: unknown, after: unknown, path = ''): Difference[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  if (!isObject(before) || !isObject(after)) return [{ path, before, after }]
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return keys.flatMap((key) => differencesOf(before[key], after[key], path ? `${path}.${key}` : key))
}

const shown = (value: unknown): string =>
  shortened(typeof value === 'string' ? value : (JSON.stringify(value) ?? '–'), MAX_VALUE)

export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const differences = differencesOf(before, after)
  if (differences.length === 0) return <p className="faint">{text.noDifferences}</p>
  return (
    <dl className="diff">
      {differences.map(({ path, before, after }) => (
        <div key={path}>
          <dt>{path}</dt>
          <dd>
            {before !== undefined && before !== null && <del>{shown(before)}</del>}
            {after !== undefined && after !== null && <ins>{shown(after)}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  )
}
