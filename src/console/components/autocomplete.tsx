/** A text field with suggestions. The value is free text. */
import { Autocomplete as Base } from '@base-ui/react/autocomplete'
import { text } from './base/text.ts'
import { layers } from './layers.ts'

interface AutocompleteProps {
  readonly label: string
  readonly name?: string
  readonly options: readonly string[]
  readonly value?: string
  readonly defaultValue?: string
  readonly required?: boolean
  readonly onChange?: (value: string) => void
}

export const Autocomplete = ({ label, name, options, onChange, required, ...value }: AutocompleteProps) => (
  <Base.Root items={options} {...value} {...(name ? { name } : {})} onValueChange={onChange} openOnInputClick>
    {/* biome-ignore lint/a11y/noLabelWithoutControl: the input is inside */}
    <label className="field">
      <span className="label">{label}</span>
      <Base.Input required={required} />
    </label>
    <Base.Portal container={layers()}>
      <Base.Positioner sideOffset={4} className="menu-positioner">
        <Base.Popup className="menu">
          <Base.Empty className="menu-empty">{text.noOptions}</Base.Empty>
          <Base.List>
            {(option: string) => (
              <Base.Item key={option} value={option} className="menu-item">
                {option}
              </Base.Item>
            )}
          </Base.List>
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  </Base.Root>
)
