/** Marks a table that is wider than its place: its region scrolls sideways then. Other regions do not scroll, because a region that scrolls moves its header out of view. */
export function watchWidth(region: HTMLElement | null): (() => void) | undefined {
  const table = region?.querySelector('table')
  if (!region || !table) return undefined
  const observer = new ResizeObserver(() => {
    region.toggleAttribute('data-wide', table.offsetWidth > region.clientWidth)
  })
  observer.observe(region)
  observer.observe(table)
  return () => observer.disconnect()
}
