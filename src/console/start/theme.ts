/** Sets the theme before the first paint. A classic script: it runs before the page is drawn, and imports nothing. */
const theme = localStorage.getItem('tenantry-theme')
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme

export {}
