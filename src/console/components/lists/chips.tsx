/** A filter with few values: buttons of which one is pressed, each with the number of its objects. */
import { formatNumber } from '../base/text.ts'

export interface Choice<Value> {
  readonly value: Value
  readonly title: string
  readonly count?: number | undefined
}

interface ChipsProps<Value> {
  /** Accessible name. */
  readonly label: string
  /** Text of the chip without a filter. */
  readonly all: string
  readonly allCount?: number | undefined
  readonly choices: readonly Choice<Value>[]
  readonly value: Value | undefined
  readonly onChange: (value: Value | undefined) => void
  /** Whether the numbers are still being read: chips that are shown do not move. */
  readonly isPending?: boolean
}

export function Chips<Value extends string>(props: ChipsProps<Value>) {
  const { label, all, allCount, choices, value, onChange, isPending = false } = props
  const shown: readonly Choice<Value | undefined>[] = [{ value: undefined, title: all, count: allCount }, ...choices]
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would be a form control
    <div className="chips" role="group" aria-label={label} data-pending={isPending || undefined}>
      {shown.map(({ value: one, title, count }) => (
        <button
          type="button"
          key={one ?? ''}
          className="chip"
          aria-pressed={one === value}
          onClick={() => onChange(one)}
        >
          {title}
          <span className="chip-count"> {count === undefined ? '' : formatNumber(count)}</span>
        </button>
      ))}
    </div>
  )
}
