class ApplicationController < ActionController::Base
  before_action :require_member
  around_action :use_locale

  helper_method :current_user

  rescue_from ActiveRecord::RecordNotFound do
    head :not_found
  end

  private

  def current_user
    @current_user ||= User.find_by(id: session[:user_id])
  end

  def require_member
    redirect_to new_session_path unless current_user
  end

  def use_locale(&action)
    locale = current_user&.locale || I18n.default_locale
    I18n.with_locale(locale, &action)
  end
end
