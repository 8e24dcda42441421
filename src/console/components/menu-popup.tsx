/** The widget of menus: one popup for all triggers, each of which passes its entries. */
import { Menu } from '@base-ui/react/menu'
import type { ComponentProps } from 'react'
import { keyText } from './key-text.ts'
import { layers } from './layers.ts'
import type { MenuEntry } from './menu-entry.ts'

const menu = Menu.createHandle<readonly MenuEntry[]>()

export const Trigger = ({ entries, ...props }: ComponentProps<'button'> & { entries: readonly MenuEntry[] }) => (
  <Menu.Trigger handle={menu} payload={entries} {...props} />
)

export const MenuPopup = () => (
  <Menu.Root handle={menu}>
    {({ payload }) => (
      <Menu.Portal container={layers()}>
        <Menu.Positioner sideOffset={4} align="end" className="menu-positioner">
          <Menu.Popup className="menu">
            {payload?.map(({ title, href, onSelect, isDestructive, key }) =>
              href ? (
                <Menu.LinkItem key={title} href={href} className="menu-item" closeOnClick>
                  {title}
                </Menu.LinkItem>
              ) : (
                <Menu.Item
                  key={title}
                  className="menu-item"
                  data-destructive={isDestructive || undefined}
                  onClick={() => void onSelect?.()}
                >
                  {title}
                  {key && <kbd>{keyText(key)}</kbd>}
                </Menu.Item>
              ),
            )}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    )}
  </Menu.Root>
)
