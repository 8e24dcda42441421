/** Connects the triggers of menus to their one popup. */
import { Menu } from '@base-ui/react/menu'

export interface MenuEntry {
  readonly title: string
  /** A link instead of an action. */
  readonly href?: string
  readonly onSelect?: () => unknown
  readonly isDestructive?: boolean
  readonly key?: string
}

export const menu = Menu.createHandle<readonly MenuEntry[]>()
