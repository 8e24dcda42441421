/** Code and JSON as text, in a focusable region that scrolls. */
import { copy, IconButton } from './button.tsx'
import { text } from './text.ts'

export function Code({ children, label = text.code }: { children: string; label?: string }) {
  return (
    <div className="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <section tabIndex={0} aria-label={label}>
        <pre>
          <code>{children}</code>
        </pre>
      </section>
      <IconButton icon="copy" label={text.copy} onClick={() => copy(children)} />
    </div>
  )
}

export const Json = ({ value, label }: { value: unknown; label?: string }) => (
  <Code label={label ?? 'JSON'}>{JSON.stringify(value, undefined, 2) ?? ''}</Code>
)
