/** The dialog of the palette: an inline autocomplete, as in the guide of Base UI. */
import { Autocomplete } from '@base-ui/react/autocomplete'
import { Dialog } from '@base-ui/react/dialog'
import { useRef } from 'react'
import { Icon } from './base/icon.tsx'
import { layers } from './layers.ts'

interface Item {
  readonly value: string
  readonly title: string
  readonly id?: string
  readonly note?: string
}

interface Group<One extends Item> {
  readonly value: string
  readonly items: readonly One[]
  readonly more: number
}

interface PaletteProps<One extends Item> {
  readonly label: string
  readonly placeholder: string
  readonly hint: string
  /** Text without a result. */
  readonly empty: string
  readonly groups: readonly Group<One>[]
  readonly more: (count: number) => string
  readonly onQuery: (query: string) => void
  readonly onChoose: (item: One, inNewTab: boolean) => void
  readonly onClose: () => void
}

export function Palette<One extends Item>({
  label,
  placeholder,
  hint,
  empty,
  groups,
  more,
  onQuery,
  onChoose,
  onClose,
}: PaletteProps<One>) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal container={layers()}>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Viewport className="palette-viewport">
          <Dialog.Popup className="palette" aria-label={label} initialFocus={input}>
            <Autocomplete.Root
              open
              inline
              items={groups as never}
              filter={null}
              autoHighlight="always"
              keepHighlight
              itemToStringValue={(item: unknown) => (item as One).title}
              onValueChange={(value, { reason }) => {
                if (reason !== 'item-press') onQuery(value)
              }}
            >
              <div className="palette-input">
                <Icon name="search" />
                <Autocomplete.Input ref={input} aria-label={label} placeholder={placeholder} />
              </div>
              <Autocomplete.Empty className="palette-empty">{empty}</Autocomplete.Empty>
              <Autocomplete.List className="palette-list">
                {(group: Group<One>) => (
                  <Autocomplete.Group key={group.value} items={group.items as never}>
                    <Autocomplete.GroupLabel className="palette-label">{group.value}</Autocomplete.GroupLabel>
                    <Autocomplete.Collection>
                      {(item: One) => (
                        <Autocomplete.Item
                          key={item.value}
                          value={item}
                          className="palette-item"
                          onClick={({ ctrlKey, metaKey }) => onChoose(item, ctrlKey || metaKey)}
                        >
                          <span>{item.title}</span>
                          {item.id && <code>{item.id}</code>}
                          {item.note && <span className="palette-note">{item.note}</span>}
                        </Autocomplete.Item>
                      )}
                    </Autocomplete.Collection>
                    {group.more > 0 && <p className="palette-more">{more(group.more)}</p>}
                  </Autocomplete.Group>
                )}
              </Autocomplete.List>
              <p className="palette-hint">{hint}</p>
            </Autocomplete.Root>
          </Dialog.Popup>
        </Dialog.Viewport>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
