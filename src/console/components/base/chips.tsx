/** A filter with few values, as buttons of which one is pressed. */

interface ChipsProps<Value extends string | undefined> {
  /** Accessible name. */
  readonly label: string
  readonly value: Value
  readonly options: readonly (readonly [value: Value, title: string])[]
  readonly onChange: (value: Value) => void
}

export const Chips = <Value extends string | undefined>({ label, value, options, onChange }: ChipsProps<Value>) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset would be a form control
  <div className="chips" role="group" aria-label={label}>
    {options.map(([option, title]) => (
      <button
        type="button"
        key={title}
        className="chip"
        aria-pressed={option === value}
        onClick={() => onChange(option)}
      >
        {title}
      </button>
    ))}
  </div>
)
