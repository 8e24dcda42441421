/** The popup of all menus: mounted once, in the shell. */
import { Menu } from '@base-ui/react/menu'
import { layers } from './layers.ts'
import { menu } from './menu-handle.ts'

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
                  {key && <kbd>{key}</kbd>}
                </Menu.Item>
              ),
            )}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    )}
  </Menu.Root>
)
