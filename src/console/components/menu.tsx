/** Menus. All triggers of the page share one popup, which is loaded when the browser is idle. */
import { Menu } from '@base-ui/react/menu'
import type { ReactNode } from 'react'
import { Icon } from './base/icon.tsx'
import { type MenuEntry, menu } from './menu-handle.ts'

interface MenuTriggerProps {
  readonly label: string
  readonly entries: readonly MenuEntry[]
  /** Default: three dots. */
  readonly children?: ReactNode
}

/** @example <MenuTrigger label={text.actionsOf(tenant.name)} entries={entries} /> */
export const MenuTrigger = ({ label, entries, children }: MenuTriggerProps) => (
  <Menu.Trigger
    handle={menu}
    payload={entries}
    className={children ? 'button' : 'icon-button'}
    aria-label={children ? undefined : label}
  >
    {children ?? <Icon name="more" />}
  </Menu.Trigger>
)
