/** A filter with many values: a select with its name in front. */

interface SelectProps<Value extends string> {
  readonly label: string
  /** Text of the option without a filter. */
  readonly none: string
  readonly value: Value | undefined
  readonly options: readonly (readonly [value: Value, title: string])[]
  readonly onChange: (value: Value | undefined) => void
}

export const Select = <Value extends string>({ label, none, value, options, onChange }: SelectProps<Value>) => (
  <label className="select">
    <span>{label}</span>
    <select
      value={value ?? ''}
      onChange={({ target }) => onChange(target.value === '' ? undefined : (target.value as Value))}
    >
      <option value="">{none}</option>
      {options.map(([one, title]) => (
        <option key={one} value={one}>
          {title}
        </option>
      ))}
    </select>
  </label>
)
