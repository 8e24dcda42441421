/** Code and JSON as text, in a focusable region that scrolls. */
import { copy, IconButton } from './button.tsx'
import { text } from './text.ts'
import { jsonOf, shortened } from './value-text.ts'

/** Characters that a page shows without delay. The button copies all of them. */
const MAX_SHOWN = 200_000

export function Code({ children, label = text.code }: { children: string; label?: string }) {
  return (
    <>
      <div className="code">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
        <section tabIndex={0} aria-label={label}>
          <pre>
            <code>{shortened(children, MAX_SHOWN)}</code>
          </pre>
        </section>
        <IconButton icon="copy" label={text.copy} onClick={() => copy(children)} />
      </div>
      {children.length > MAX_SHOWN && <p className="faint">{text.shownPart(MAX_SHOWN, children.length)}</p>}
    </>
  )
}

export const Json = ({ value, label }: { value: unknown; label?: string }) => (
  <Code label={label ?? 'JSON'}>{jsonOf(value, 2)}</Code>
)
