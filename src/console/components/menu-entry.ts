/** An entry of a menu. */
export interface MenuEntry {
  readonly title: string
  /** A link instead of an action. */
  readonly href?: string
  readonly onSelect?: () => unknown
  readonly isDestructive?: boolean
  readonly key?: string
}
