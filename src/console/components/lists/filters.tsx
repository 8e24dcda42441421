/** Filters of a list above its rows: selects and times, and the active ones with a button that removes each. */
import { Button } from '../base/button.tsx'
import { Icon } from '../base/icon.tsx'
import { fromLocal, toLocal, validTime } from '../base/local-time.ts'
import { Empty } from '../base/page.tsx'
import { text } from '../base/text.ts'

type Option = readonly [value: string, title: string]

interface FilterSelectProps {
  readonly label: string
  /** Text of the option without a filter. Absent: one option is always chosen. */
  readonly all?: string
  readonly value: string | undefined
  readonly options: readonly Option[]
  readonly onChange: (value: string | undefined) => void
}

/** A value that the options lack, such as one from the address, is added. */
export function FilterSelect({ label, all, value, options, onChange }: FilterSelectProps) {
  const isKnown = value === undefined || options.some(([one]) => one === value)
  return (
    <label className="filter">
      <span>{label}</span>
      <select value={value ?? ''} onChange={(event) => onChange(event.target.value || undefined)}>
        {all !== undefined && <option value="">{all}</option>}
        {(isKnown ? options : [[value, value] as Option, ...options]).map(([one, title]) => (
          <option key={one} value={one}>
            {title}
          </option>
        ))}
      </select>
    </label>
  )
}

interface FilterTimeProps {
  readonly label: string
  /** A date or a time. */
  readonly value: string | undefined
  /** Whether a time is entered in place of a date. Default: if the value is a time. */
  readonly hasTime?: boolean
  readonly className?: string
  readonly onChange: (value: string | undefined) => void
}

/** A time is shown and entered in the time zone of the browser. The address has the value when the field is left. */
export function FilterTime({ label, value, hasTime, className = 'filter', onChange }: FilterTimeProps) {
  const isTime = hasTime ?? (value?.includes('T') && validTime(value) !== undefined)
  const shown = isTime ? toLocal(value) : (value?.slice(0, 10) ?? '')
  return (
    <label className={className}>
      <span>{label}</span>
      <input
        key={value ?? ''}
        type={isTime ? 'datetime-local' : 'date'}
        defaultValue={shown}
        onBlur={({ target: { value: entered, validity } }) => {
          if (validity.badInput || entered === shown) return
          onChange((isTime ? fromLocal(entered) : entered) || undefined)
        }}
      />
    </label>
  )
}

interface Choice<Value> {
  readonly value: Value
  readonly title: string
}

interface ChoiceChipsProps<Value> {
  readonly label: string
  readonly choices: readonly Choice<Value>[]
  readonly value: Value
  readonly onChange: (value: Value) => void
}

/** Buttons of which one is always pressed. */
export const ChoiceChips = <Value,>({ label, choices, value, onChange }: ChoiceChipsProps<Value>) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset would be a form control
  <div className="chips" role="group" aria-label={label}>
    {choices.map((choice) => (
      <button
        type="button"
        key={choice.title}
        className="chip"
        aria-pressed={choice.value === value}
        onClick={() => onChange(choice.value)}
      >
        {choice.title}
      </button>
    ))}
  </div>
)

export interface ActiveFilter {
  /** Member of the address. */
  readonly key: string
  readonly label: string
  readonly value: string
}

interface ActiveFiltersProps {
  readonly label?: string
  readonly filters: readonly ActiveFilter[]
  readonly onRemove: (keys: readonly string[]) => void
}

/** Filters, each with a button that removes it. */
export const ActiveFilters = ({ label = text.filters, filters, onRemove }: ActiveFiltersProps) => (
  <ul className="active-filters" aria-label={label}>
    {filters.map(({ key, label, value }) => (
      <li key={key}>
        <button type="button" className="active-filter" onClick={() => onRemove([key])}>
          <span>
            {label}: <strong>{value}</strong>
          </span>
          <Icon name="close" size={12} />
          <span className="hidden">{text.remove(label)}</span>
        </button>
      </li>
    ))}
  </ul>
)

interface EmptyFilteredProps extends Omit<ActiveFiltersProps, 'label'> {
  readonly title: string
}

/** In place of rows that no filter matches. */
export const EmptyFiltered = ({ title, filters, onRemove }: EmptyFilteredProps) => (
  <Empty
    title={title}
    actions={<Button onClick={() => onRemove(filters.map(({ key }) => key))}>{text.clearAll}</Button>}
  >
    <ActiveFilters filters={filters} onRemove={onRemove} />
  </Empty>
)

/** Patch of the address that removes members. */
export const without = (keys: readonly string[]): Record<string, undefined> =>
  Object.fromEntries(keys.map((key) => [key, undefined]))
